from __future__ import annotations

import random
import re
import time

import pytest
from aiortc.sdp import SessionDescription

from rtc_server.errors import BadOffer, UnsupportedOffer
from rtc_server.transports.webrtc import offer as offer_module
from rtc_server.transports.webrtc.offer import parse_offer
from rtc_server.transports.webrtc.sdp import answer_offer
from tests.transports.webrtc import offers
from tests.transports.webrtc.offers import LOCAL, with_lines

# file, what is refused and why (or None), Opus payload type, answer's direction
CASES = [
    ("S01", None, 111, "sendrecv"),
    ("S03", None, 111, "sendrecv"),
    ("S04", (422, "no audio section"), None, None),
    ("S05", None, 111, "sendrecv"),
    ("S08", None, 109, "sendrecv"),
    ("S09", None, 109, "sendrecv"),
    ("S10", None, 109, "sendrecv"),
    ("S13", None, 111, "sendrecv"),
    ("S17", (422, "no opus/48000"), None, None),
    ("S18", (422, "setup:passive"), None, None),
    ("S22", None, 111, "sendrecv"),
    ("S23", (422, "ice-lite"), None, None),
    ("S25", None, 111, "sendrecv"),
    ("S26", None, 111, "sendrecv"),
    ("S28a", None, 111, "sendrecv"),
    ("S28b", None, 111, "sendrecv"),
    ("S29", (422, "no fingerprint is strong enough"), None, None),
    ("S30", None, 111, "sendrecv"),
    ("S32", (422, "no opus/48000"), None, None),
    ("S34", None, 111, "sendonly"),
    ("S35", None, 111, "sendrecv"),
    ("S37_1", None, 111, "sendrecv"),
    ("S37_2", None, 111, "sendrecv"),
    ("S37_3", None, 111, "sendrecv"),
    ("S40_1", None, 111, "sendrecv"),
    ("S40_2", None, 111, "sendrecv"),
    ("S41", None, 111, "sendrecv"),
]


def sections_of(answer: str) -> list[list[str]]:
    return [part.split("\r\n") for part in re.split(r"\r\n(?=m=)", answer.removesuffix("\r\n"))[1:]]


def section_lines(answer: str, kind: str) -> list[str]:
    return next(lines for lines in sections_of(answer) if lines[0].startswith(f"m={kind} "))


def test_every_case_file_has_its_row() -> None:
    assert len(CASES) == len(offers.names())


@pytest.mark.parametrize(("name", "refusal", "payload_type", "direction"), CASES)
def test_offer_from_the_field_is_answered_or_refused_with_a_reason(
    name: str, refusal: tuple[int, str] | None, payload_type: int | None, direction: str | None
) -> None:
    sdp = offers.read(name)
    if refusal is not None:
        status, reason = refusal
        with pytest.raises(BadOffer, match=reason) as caught:
            answer_offer(sdp, LOCAL)
        assert caught.value.http_status == status
        return
    agreed = answer_offer(sdp, LOCAL)
    assert agreed.audio.payload_type == payload_type
    assert agreed.direction == direction
    check_answer(sdp, agreed.answer_sdp)


def check_answer(offer_sdp: str, answer: str) -> None:
    """What holds for every answer, whatever was offered."""
    assert answer.endswith("\r\n") and "\n" not in answer.replace("\r\n", "")
    offered = parse_offer(offer_sdp).sections
    answered = sections_of(answer)
    assert [lines[0].split()[0] for lines in answered] == [f"m={section.kind}" for section in offered]
    assert answer.count("a=ice-lite") == 1
    assert "actpass" not in answer and "extmap" not in answer
    for section, lines in zip(offered, answered, strict=True):
        port, profile = lines[0].split()[1:3]
        assert profile == section.profile
        assert [line for line in lines if line.startswith("a=mid:")] == (
            [] if section.mid is None else [f"a=mid:{section.mid}"]
        )
        if port == "0":
            assert not any(line.startswith("a=ice-ufrag") for line in lines)
        else:
            assert port == str(LOCAL.port)
            assert {"a=setup:passive", "a=end-of-candidates", f"a=ice-ufrag:{LOCAL.ufrag}"} <= set(lines)
            assert sum(line.startswith("a=candidate:") for line in lines) == len(LOCAL.addresses)
            assert sum(line.startswith("a=fingerprint:") for line in lines) == 1
    parsed = SessionDescription.parse(answer)
    opus = next(media for media in parsed.media if media.kind == "audio" and media.port)
    assert [codec.name for codec in opus.rtp.codecs] == ["opus"]


@pytest.mark.parametrize("name", [name for name, refusal, *_ in CASES if refusal is None])
def test_our_reading_agrees_with_an_independent_parser(name: str) -> None:
    sdp = offers.read(name)
    ours, theirs = parse_offer(sdp), SessionDescription.parse(sdp)
    assert [section.mid or "" for section in ours.sections] == [media.rtp.muxId for media in theirs.media]
    for section, media in zip(ours.sections, theirs.media, strict=True):
        if section.kind == "audio" and not section.rejected:
            assert ours.ice_credentials(section) == (media.ice.usernameFragment, media.ice.password)
            assert [(item.algorithm, item.value) for item in ours.fingerprints(section)] == [
                (item.algorithm, item.value) for item in media.dtls.fingerprints
            ]
            assert ours.direction(section) == (media.direction or "sendrecv")


def test_opus_answer_asks_for_fec_mono_and_24_khz() -> None:
    lines = section_lines(answer_offer(offers.read("S01"), LOCAL).answer_sdp, "audio")
    assert lines[0] == "m=audio 8125 UDP/TLS/RTP/SAVPF 111"
    assert (
        "a=fmtp:111 minptime=10;useinbandfec=1;usedtx=0;stereo=0;sprop-stereo=0;maxplaybackrate=24000;"
        "maxaveragebitrate=40000"
    ) in lines
    assert {"a=ptime:20", "a=rtcp-mux", "a=sendrecv", "a=ssrc:16909060 cname:agent-cname"} <= set(lines)


def test_data_channel_section_is_answered_with_port_and_message_size() -> None:
    agreed = answer_offer(offers.read("S01"), LOCAL)
    lines = section_lines(agreed.answer_sdp, "application")
    assert lines[0] == "m=application 8125 UDP/DTLS/SCTP webrtc-datachannel"
    assert {"a=mid:1", "a=sctp-port:5000", "a=max-message-size:16384"} <= set(lines)
    assert agreed.sctp is not None and agreed.sctp.max_message_bytes == 262144
    assert "a=group:BUNDLE 0 1\r\n" in agreed.answer_sdp


def test_candidates_are_ranked_in_the_order_of_the_addresses() -> None:
    lines = section_lines(answer_offer(offers.read("S01"), LOCAL).answer_sdp, "audio")
    candidates = [line.split() for line in lines if line.startswith("a=candidate:")]
    assert [bits[4] for bits in candidates] == list(LOCAL.addresses)
    priorities = [int(bits[3]) for bits in candidates]
    assert priorities == sorted(priorities, reverse=True)


def test_rejected_first_section_is_mirrored_without_mid_or_credentials() -> None:
    agreed = answer_offer(offers.read("S09"), LOCAL)
    first, second, data = sections_of(agreed.answer_sdp)
    assert first[0] == "m=audio 0 UDP/TLS/RTP/SAVPF 0" and "a=inactive" in first
    assert second[0].startswith("m=audio 8125") and data[0].startswith("m=application 8125")
    assert [section.accepted for section in agreed.sections] == [False, True, True]
    assert "a=group:BUNDLE 1 2\r\n" in agreed.answer_sdp


def test_offer_without_bundle_gets_an_answer_without_bundle() -> None:
    assert "BUNDLE" not in answer_offer(offers.read("S10"), LOCAL).answer_sdp


def test_data_channel_outside_the_bundle_is_rejected_because_there_is_one_transport() -> None:
    sdp = with_lines(offers.read("S01"), {"a=group:BUNDLE": "a=group:BUNDLE 0"})
    agreed = answer_offer(sdp, LOCAL)
    assert agreed.sctp is None
    assert section_lines(agreed.answer_sdp, "application")[0].startswith("m=application 0 ")


def test_red_is_not_answered_even_where_it_is_preferred() -> None:
    answer = answer_offer(offers.read("S41"), LOCAL).answer_sdp
    assert section_lines(answer, "audio")[0].endswith(" 111") and "red/" not in answer


def test_listener_without_microphone_is_not_expected_to_send() -> None:
    agreed = answer_offer(offers.read("S34"), LOCAL)
    assert not agreed.expects_audio and agreed.sends_audio


@pytest.mark.parametrize(
    ("offered", "answered"), [("sendonly", "recvonly"), ("inactive", "inactive"), ("recvonly", "sendonly")]
)
def test_direction_is_answered_from_the_other_side(offered: str, answered: str) -> None:
    agreed = answer_offer(with_lines(offers.read("S01"), {"a=sendrecv": f"a={offered}"}), LOCAL)
    assert agreed.direction == answered
    assert ("a=ssrc:" in agreed.answer_sdp) is agreed.sends_audio


def test_offered_bitrate_and_ptime_are_told() -> None:
    sdp = with_lines(offers.read("S23"), {"a=ice-lite": None})
    agreed = answer_offer(sdp, LOCAL)
    assert (agreed.audio.max_bitrate_bps, agreed.remote_ptime_ms) == (20_000, 20)
    assert answer_offer(offers.read("S35"), LOCAL).remote_ptime_ms == 60


def test_bundle_only_section_with_port_zero_is_not_rejected() -> None:
    sdp = (
        offers.read("S01")
        .replace("m=application 9 ", "m=application 0 ")
        .replace("a=mid:1", "a=mid:1\r\na=bundle-only")
    )
    assert answer_offer(sdp, LOCAL).sctp is not None


@pytest.mark.parametrize(
    ("replacements", "status", "reason"),
    [
        ({"a=fingerprint": None}, 400, "no a=fingerprint"),
        ({"a=fingerprint": "a=fingerprint:sha-256 AB:CD"}, 400, "malformed sha-256"),
        ({"a=ice-pwd": None}, 400, "no ICE credentials"),
        ({"a=ice-ufrag": "a=ice-ufrag:a b!"}, 400, "malformed"),
        ({"a=setup": "a=setup:passive"}, 422, "setup:passive"),
        ({"a=setup": "a=setup:sideways"}, 400, "malformed a=setup"),
        ({"a=rtcp-mux": None}, 422, "no a=rtcp-mux"),
        ({"a=mid": "a=mid:one two"}, 400, "malformed a=mid"),
        ({"a=mid": "a=mid:same"}, 400, "the same a=mid"),
        ({"m=audio": "m=audio 99999 UDP/TLS/RTP/SAVPF 111"}, 400, "malformed m="),
        ({"m=audio": "m=audio nine UDP/TLS/RTP/SAVPF 111"}, 400, "malformed m="),
        ({"m=audio": "m=audio 0 UDP/TLS/RTP/SAVPF 111"}, 422, "no audio section"),
        ({"m=audio": "m=audio 9 udp 111"}, 422, "not RTP"),
        ({"a=rtpmap:111": "a=rtpmap:111 opus/8000"}, 422, "no opus/48000"),
        ({"v=0": "v=1"}, 400, "not SDP"),
    ],
)
def test_wrong_offer_is_refused_with_what_is_wrong(
    replacements: dict[str, str | None], status: int, reason: str
) -> None:
    with pytest.raises(BadOffer, match=reason) as caught:
        answer_offer(with_lines(offers.read("S01"), replacements), LOCAL)
    assert caught.value.http_status == status


@pytest.mark.parametrize(
    ("sdp", "reason"),
    [
        ("", "not SDP"),
        ("\x00\xff", "not SDP"),
        ("\ud800", "not SDP"),
        ("v=0\r\n" + "a=x\r\n" * offer_module.MAX_LINES, "lines"),
        ("v=0\r\na=" + "x" * offer_module.MAX_LINE_CHARS, "characters"),
        ("v=0\r\n" + "m=video 9 RTP/SAVPF 96\r\n" * (offer_module.MAX_SECTIONS + 1), "media sections"),
        ("v=0\r\n" + "a=" + "é" * (offer_module.MAX_SDP_BYTES // 2), "over the limit"),
    ],
)
def test_oversized_or_foreign_text_is_refused(sdp: str, reason: str) -> None:
    with pytest.raises(BadOffer, match=reason):
        answer_offer(sdp, LOCAL)


# ---- later offers of the same call -----------------------------------------------------------------------------------


def test_later_offer_may_add_video_and_keeps_the_call() -> None:
    first = answer_offer(offers.read("S37_1"), LOCAL)
    second = answer_offer(offers.read("S37_2"), LOCAL, first)
    assert second.version == first.version + 1
    assert f"a=ice-ufrag:{LOCAL.ufrag}\r\n" in second.answer_sdp
    assert section_lines(second.answer_sdp, "video")[0].startswith("m=video 0 ")
    assert "a=group:BUNDLE 0 1\r\n" in second.answer_sdp


def test_later_offer_with_swapped_sections_is_refused() -> None:
    first = answer_offer(offers.read("S37_1"), LOCAL)
    second = answer_offer(offers.read("S37_2"), LOCAL, first)
    with pytest.raises(BadOffer, match="section 0 changed"):
        answer_offer(offers.read("S37_3"), LOCAL, second)


def test_header_extensions_are_never_answered_so_their_ids_cannot_change() -> None:
    first = answer_offer(offers.read("S40_1"), LOCAL)
    second = answer_offer(offers.read("S40_2"), LOCAL, first)
    assert "extmap" not in first.answer_sdp + second.answer_sdp


@pytest.mark.parametrize(
    ("replacements", "reason"),
    [
        ({"a=ice-pwd": "a=ice-pwd:abcdefghijklmnopqrstuvwx"}, "restarts ICE"),
        ({"a=fingerprint": "a=fingerprint:sha-256 " + ":".join(["CD"] * 32)}, "fingerprint"),
        ({"m=audio": "m=audio 0 UDP/TLS/RTP/SAVPF 111"}, "no audio section"),
    ],
)
def test_later_offer_that_would_need_a_new_transport_is_refused(
    replacements: dict[str, str | None], reason: str
) -> None:
    first = answer_offer(offers.read("S01"), LOCAL)
    with pytest.raises(UnsupportedOffer, match=reason):
        answer_offer(with_lines(offers.read("S01"), replacements), LOCAL, first)


def test_later_offer_with_fewer_sections_is_refused() -> None:
    first = answer_offer(offers.read("S01"), LOCAL)
    with pytest.raises(BadOffer, match="fewer"):
        answer_offer(offers.read("S01").split("m=application")[0], LOCAL, first)


def test_later_offer_may_hold_the_call() -> None:
    first = answer_offer(offers.read("S01"), LOCAL)
    held = answer_offer(with_lines(offers.read("S01"), {"a=sendrecv": "a=inactive"}), LOCAL, first)
    assert not held.expects_audio and not held.sends_audio


# ---- hostile offers --------------------------------------------------------------------------------------------------

ODD_PIECES = [
    "\x00",
    "\r",
    "\n",
    "a=",
    "m=",
    ":",
    " ",
    "/",
    "-1",
    "99999999999999999999",
    "é",
    "\ud800",
    "\u2028",
    "0",
    "=",
]


def mutated(rng: random.Random, sdp: str) -> str:
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(sdp) + 1)
        match rng.randrange(5):
            case 0:
                sdp = sdp[:at] + rng.choice(ODD_PIECES) + sdp[at:]
            case 1:
                sdp = sdp[:at] + sdp[at + rng.randint(1, 40) :]
            case 2:
                lines = sdp.split("\r\n")
                lines.insert(rng.randrange(len(lines)), rng.choice(lines))
                sdp = "\r\n".join(lines)
            case 3:
                lines = sdp.split("\r\n")
                del lines[rng.randrange(len(lines))]
                sdp = "\r\n".join(lines)
            case _:
                sdp = sdp[:at] + chr(rng.randrange(256)) + sdp[at + 1 :]
    return sdp


def test_5000_mutated_offers_are_answered_or_refused_and_nothing_else() -> None:
    rng = random.Random(20)
    originals = [offers.read(name) for name in offers.names()]
    first = {name: answer_offer(offers.read(name), LOCAL) for name in ("S01_chrome_desktop_audio_data_trickle.sdp",)}
    answered = refused = 0
    slowest_s = 0.0
    for index in range(5000):
        sdp = mutated(rng, rng.choice(originals))
        previous = next(iter(first.values())) if index % 4 == 0 else None
        began_s = time.perf_counter()
        try:
            agreed = answer_offer(sdp, LOCAL, previous)
        except BadOffer as error:
            assert error.http_status in (400, 422) and error.message
            refused += 1
        else:
            answered += 1
            assert agreed.answer_sdp.isascii()
            assert agreed.answer_sdp.count("m=") >= 1
            assert not re.search(r"[^\r]\n|\r[^\n]|\x00", agreed.answer_sdp)
        slowest_s = max(slowest_s, time.perf_counter() - began_s)
    assert answered > 1000 and refused > 1000
    assert slowest_s < 1.0


def test_worst_case_offer_within_the_limits_is_handled_quickly() -> None:
    """Many codecs, many parameters: the work must not grow faster than the text."""
    rtpmaps = "".join(f"a=rtpmap:{number % 64} x/1\r\na=fmtp:{number % 64} {';' * 30}\r\n" for number in range(480))
    sdp = "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF " + "1 " * 300 + "\r\n" + rtpmaps
    began_s = time.perf_counter()
    with pytest.raises(BadOffer):
        answer_offer(sdp[: offer_module.MAX_SDP_BYTES], LOCAL)
    assert time.perf_counter() - began_s < 0.5


@pytest.mark.parametrize("line", ["a=group:", "a=group", "a=group:BUNDLE", "a=group: BUNDLE", "a=group:LS 0"])
def test_odd_group_line_is_no_bundle(line: str) -> None:
    offer = offers.read("S01").replace("a=group:BUNDLE 0 1", line)
    assert line in offer
    assert answer_offer(offer, LOCAL).answer_sdp.startswith("v=0")
