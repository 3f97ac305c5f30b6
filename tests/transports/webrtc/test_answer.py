from __future__ import annotations

from dataclasses import replace

import pytest

from rtc_server.transports.webrtc.negotiation import answer_offer
from tests.transports.webrtc import offers
from tests.transports.webrtc.answers import section_lines, sections_of
from tests.transports.webrtc.offers import LOCAL, with_lines


def audio_lines(name: str) -> list[str]:
    return section_lines(answer_offer(offers.read(name), LOCAL).answer_sdp, "audio")


def test_opus_answer_asks_for_fec_mono_24_khz_and_no_dtx() -> None:
    lines = audio_lines("S35")
    assert lines[0] == "m=audio 8125 UDP/TLS/RTP/SAVPF 111"
    assert (
        "a=fmtp:111 minptime=10;useinbandfec=1;usedtx=0;stereo=0;sprop-stereo=0;maxplaybackrate=24000;"
        "maxaveragebitrate=40000"
    ) in lines
    assert {"a=ptime:20", "a=rtcp-mux", "a=sendrecv", "a=ssrc:16909060 cname:agent-cname"} <= set(lines)


def test_candidates_are_ranked_in_the_order_of_the_addresses() -> None:
    candidates = [line.split() for line in audio_lines("S01") if line.startswith("a=candidate:")]
    assert [bits[4] for bits in candidates] == list(LOCAL.addresses)
    priorities = [int(bits[3]) for bits in candidates]
    assert priorities == sorted(priorities, reverse=True)


@pytest.mark.parametrize(
    ("addresses", "line"),
    [(("192.0.2.7",), "c=IN IP4 192.0.2.7"), (("2001:db8::7",), "c=IN IP6 2001:db8::7"), ((), "c=IN IP4 0.0.0.0")],
)
def test_connection_line_has_the_best_address(addresses: tuple[str, ...], line: str) -> None:
    answer = answer_offer(offers.read("S01"), replace(LOCAL, addresses=addresses)).answer_sdp
    assert line in section_lines(answer, "audio")


def test_rejected_section_is_mirrored_without_mid_or_credentials() -> None:
    first, second, data = sections_of(answer_offer(offers.read("S09"), LOCAL).answer_sdp)
    assert first[0] == "m=audio 0 UDP/TLS/RTP/SAVPF 0" and "a=inactive" in first
    assert second[0].startswith("m=audio 8125") and data[0].startswith("m=application 8125")


def test_bundle_names_what_was_taken_in_the_order_of_the_offer() -> None:
    assert "a=group:BUNDLE 1 2\r\n" in answer_offer(offers.read("S09"), LOCAL).answer_sdp
    swapped = with_lines(offers.read("S01"), {"a=group": "a=group:BUNDLE 1 0 gone 1"})
    assert "a=group:BUNDLE 1 0\r\n" in answer_offer(swapped, LOCAL).answer_sdp


def test_offer_without_bundle_gets_an_answer_without_bundle() -> None:
    assert "BUNDLE" not in answer_offer(offers.read("S10"), LOCAL).answer_sdp


def test_video_beside_an_audio_that_forces_our_role_is_answered_with_port_zero() -> None:
    audio, video = sections_of(answer_offer(offers.read("S18"), LOCAL).answer_sdp)
    assert audio[0] == "m=audio 8125 UDP/TLS/RTP/SAVP 111" and "a=setup:active" in audio
    assert video[0] == "m=video 0 UDP/TLS/RTP/SAVPF 102 106"


@pytest.mark.parametrize(("name", "m_line"), [("S17", "m=audio 8125 UDP/TLS/RTP/SAVPF 8"), ("S32", "")])
def test_g711_answer_names_one_codec(name: str, m_line: str) -> None:
    lines = audio_lines(name)
    assert lines[0] == (m_line or "m=audio 8125 UDP/TLS/RTP/SAVPF 0")
    assert [line for line in lines if line.startswith("a=rtpmap")] == [
        "a=rtpmap:8 PCMA/8000" if name == "S17" else "a=rtpmap:0 PCMU/8000"
    ]
    assert "a=ptime:20" in lines
