"""Looking into our answers: their sections, and what holds for every one of them."""

from __future__ import annotations

import re

from aiortc.sdp import MediaDescription, SessionDescription

from rtc_server.media.audioformat import AudioFormat
from rtc_server.transports.webrtc.offer import parse_offer
from rtc_server.transports.webrtc.sdp import Negotiated
from tests.transports.webrtc.offers import LOCAL


def sections_of(answer: str) -> list[list[str]]:
    return [part.split("\r\n") for part in re.split(r"\r\n(?=m=)", answer.removesuffix("\r\n"))[1:]]


def section_lines(answer: str, kind: str) -> list[str]:
    """Of the first section of a kind that was taken, else the first of that kind."""
    found = [lines for lines in sections_of(answer) if lines[0].startswith(f"m={kind} ")]
    return next((lines for lines in found if not lines[0].startswith(f"m={kind} 0 ")), found[0])


def read_audio(answer: str) -> MediaDescription:
    """The audio section that was taken, as aiortc reads it."""
    return next(media for media in SessionDescription.parse(answer).media if media.kind == "audio" and media.port)


def codecs_of(audio: AudioFormat) -> list[tuple[int, str, int]]:
    """(payload type, MIME type, clock) in the order of the answer."""
    rows = [
        (audio.red_payload_type, "audio/red"),
        (audio.payload_type, f"audio/{audio.codec}"),
        (audio.comfort_noise_payload_type, "audio/CN"),
    ]
    return [(number, mime_type, audio.clock_hz) for number, mime_type in rows if number is not None]


def check_answer(offer_sdp: str, agreed: Negotiated) -> None:
    """An independent parser reads in it what was agreed on, and it fits the offer (RFC 3264 section 6)."""
    answer = agreed.answer_sdp
    assert answer.isascii() and answer.endswith("\r\n") and "\n" not in answer.replace("\r\n", "")
    offered = parse_offer(offer_sdp).sections
    answered = sections_of(answer)
    assert [lines[0].split()[0] for lines in answered] == [f"m={section.kind}" for section in offered]
    assert answer.count("a=ice-lite") == (0 if agreed.remote_lite else 1)
    assert "actpass" not in answer and "extmap" not in answer
    credentials = LOCAL.fresh_credentials if agreed.restarts_ice else LOCAL.credentials
    for section, lines, state in zip(offered, answered, agreed.sections, strict=True):
        port, profile = lines[0].split()[1:3]
        assert profile == section.profile
        assert [line for line in lines if line.startswith("a=mid:")] == (
            [] if section.mid is None else [f"a=mid:{section.mid}"]
        )
        assert (port != "0") is state.accepted
        if not state.accepted:
            assert lines[0].split()[3:] == list(section.formats)
            assert not any(line.startswith("a=ice-ufrag") for line in lines)
        else:
            assert port == str(LOCAL.port)
            assert {f"a=setup:{agreed.setup}", "a=end-of-candidates"} <= set(lines)
            assert {f"a=ice-ufrag:{credentials.ufrag}", f"a=ice-pwd:{credentials.pwd}"} <= set(lines)
            assert sum(line.startswith("a=candidate:") for line in lines) == len(LOCAL.addresses)
            assert sum(line.startswith("a=fingerprint:") for line in lines) == 1
    audio = read_audio(answer)
    assert [(codec.payloadType, codec.mimeType, codec.clockRate) for codec in audio.rtp.codecs] == codecs_of(
        agreed.audio
    )
    assert audio.fmt == [codec.payloadType for codec in audio.rtp.codecs]
    assert audio.direction == agreed.direction and audio.rtcp_mux
    states = zip(offered, agreed.sections, strict=True)
    taken = next(section for section, state in states if state.accepted and section.kind == "audio")
    known = {codec.payload_type: f"audio/{codec.name}" for codec in taken.codecs()}
    assert all(known[codec.payloadType] == codec.mimeType.lower() for codec in audio.rtp.codecs)
