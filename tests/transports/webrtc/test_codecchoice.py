from __future__ import annotations

import pytest

from rtc_server.errors import UnsupportedOffer
from rtc_server.media.audioformat import MAX_BITRATE_BPS, AudioFormat
from rtc_server.transports.webrtc.codecchoice import MIN_BITRATE_BPS, choose_audio
from rtc_server.transports.webrtc.negotiation import answer_offer
from rtc_server.transports.webrtc.offer import parse_offer
from tests.transports.webrtc import offers
from tests.transports.webrtc.answers import check_answer, section_lines
from tests.transports.webrtc.offers import LOCAL, with_codecs, with_lines

OPUS = "a=rtpmap:111 opus/48000/2"


def chosen(sdp: str, previous: AudioFormat | None = None) -> AudioFormat | None:
    return choose_audio(parse_offer(sdp).sections[0], previous)


def opus(payload_type: int, red: int | None = None) -> AudioFormat:
    return AudioFormat("opus", payload_type, 48_000, red_payload_type=red)


def g711(codec: str, payload_type: int, noise: int | None = None) -> AudioFormat:
    assert codec == "PCMU" or codec == "PCMA"
    return AudioFormat(codec, payload_type, 8000, comfort_noise_payload_type=noise)


# ---- RED -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["S01", "S41"])
def test_red_stands_first_in_the_answer_wherever_the_offer_has_it(name: str) -> None:
    agreed = answer_offer(offers.read(name), LOCAL)
    lines = section_lines(agreed.answer_sdp, "audio")
    assert lines[0] == "m=audio 8125 UDP/TLS/RTP/SAVPF 63 111"
    assert {"a=rtpmap:63 red/48000/2", "a=fmtp:63 111/111", OPUS} <= set(lines)
    assert agreed.audio == opus(111, red=63)


@pytest.mark.parametrize(
    ("formats", "lines", "red"),
    [
        ("111 63", ["a=rtpmap:63 red/48000/2", "a=fmtp:63 111/111"], 63),
        ("111 63", ["a=rtpmap:63 RED/48000/2", "a=fmtp:63 111/111/111"], 63),
        ("111 63", ["a=rtpmap:63 red/48000/2"], 63),
        ("111 63", ["a=rtpmap:63 red/48000/2", "a=fmtp:63 0/111"], 63),
        ("111 63 64", ["a=rtpmap:63 red/48000/2", "a=fmtp:63 0/0", "a=rtpmap:64 red/48000/2"], None),
        ("111 63 96", ["a=rtpmap:63 red/48000/2", "a=fmtp:63 0/0", "a=rtpmap:96 red/48000/2"], 96),
        ("111 63", ["a=rtpmap:63 red/48000/2", "a=fmtp:63 11/1"], None),
        ("111 63", ["a=rtpmap:63 red/8000", "a=fmtp:63 111/111"], None),
        ("111 63", ["a=rtpmap:63 red/48000", "a=fmtp:63 111/111"], None),
        ("111", ["a=rtpmap:63 red/48000/2", "a=fmtp:63 111/111"], None),
        ("111 95", ["a=rtpmap:95 red/48000/2", "a=fmtp:95 111/111"], None),
    ],
    ids=["plain", "three blocks", "no fmtp", "ours among others", "wrong blocks", "second fits", "part of a number"]
    + ["of 8 kHz", "mono", "not in the m= line", "reads as RTCP"],
)
def test_red_is_taken_only_around_the_opus_of_the_call(formats: str, lines: list[str], red: int | None) -> None:
    sdp = with_codecs(formats, OPUS, *lines)
    assert chosen(sdp) == opus(111, red)
    check_answer(sdp, answer_offer(sdp, LOCAL))


def test_red_is_not_answered_with_g711() -> None:
    sdp = with_codecs("63 0", "a=rtpmap:63 red/8000", "a=fmtp:63 0/0")
    assert chosen(sdp) == g711("PCMU", 0)


# ---- Opus ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload_type", [0, 35, 63, 96, 127])
def test_opus_is_taken_under_whatever_number_it_has(payload_type: int) -> None:
    assert chosen(with_codecs(f"{payload_type}", f"a=rtpmap:{payload_type} OPUS/48000/2")) == opus(payload_type)


@pytest.mark.parametrize("payload_type", [64, 72, 95, 128, 200])
def test_numbers_that_read_as_rtcp_or_do_not_fit_are_no_payload_types(payload_type: int) -> None:
    sdp = with_codecs(f"{payload_type} 8", f"a=rtpmap:{payload_type} opus/48000/2")
    assert chosen(sdp) == g711("PCMA", 8)


def test_opus_is_taken_though_the_offer_prefers_g711() -> None:
    assert chosen(with_codecs("0 8 111", OPUS)) == opus(111)


@pytest.mark.parametrize(
    ("offered", "taken"),
    [("20000", 20_000), ("510000", MAX_BITRATE_BPS), ("1", MIN_BITRATE_BPS), ("much", MAX_BITRATE_BPS)],
)
def test_offered_bitrate_is_kept_within_our_own_limits(offered: str, taken: int) -> None:
    audio = chosen(with_codecs("111", OPUS, f"a=fmtp:111 minptime=10; maxaveragebitrate={offered}"))
    assert audio is not None and audio.max_bitrate_bps == taken


# ---- G.711 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formats", "lines", "audio"),
    [
        ("0", [], g711("PCMU", 0)),
        ("8", [], g711("PCMA", 8)),
        ("8 0", ["a=rtpmap:0 PCMU/8000", "a=rtpmap:8 PCMA/8000"], g711("PCMA", 8)),
        ("0 8", ["a=rtpmap:8 PCMA/8000"], g711("PCMU", 0)),
        ("8 13", [], g711("PCMA", 8, noise=13)),
        ("13 0 8", ["a=rtpmap:13 CN/8000"], g711("PCMU", 0, noise=13)),
        ("0 13 98", ["a=rtpmap:13 CN/16000", "a=rtpmap:98 CN/8000"], g711("PCMU", 0, noise=98)),
        ("0 70", ["a=rtpmap:70 CN/8000"], g711("PCMU", 0)),
        ("96 8", ["a=rtpmap:96 pcmu/8000/1"], g711("PCMU", 96)),
        ("0 8", ["a=rtpmap:0 L16/8000"], g711("PCMA", 8)),
        ("96 8", ["a=rtpmap:96 PCMU/8000/2"], g711("PCMA", 8)),
        ("96 8", ["a=rtpmap:96 PCMU/16000"], g711("PCMA", 8)),
        ("126 9 0", ["a=rtpmap:126 telephone-event/8000"], g711("PCMU", 0)),
    ],
)
def test_without_opus_the_first_g711_of_the_offer_is_taken(formats: str, lines: list[str], audio: AudioFormat) -> None:
    sdp = with_codecs(formats, *lines)
    agreed = answer_offer(sdp, LOCAL)
    assert agreed.audio == audio
    check_answer(sdp, agreed)
    answered = section_lines(agreed.answer_sdp, "audio")
    assert f"a=rtpmap:{audio.payload_type} {audio.codec}/8000" in answered
    assert "a=ptime:20" in answered and not any(line.startswith("a=fmtp:") for line in answered)


def test_comfort_noise_is_not_answered_with_opus() -> None:
    assert chosen(with_codecs("111 13", OPUS)) == opus(111)


@pytest.mark.parametrize(
    ("formats", "lines", "offered"),
    [
        ("9", [], "g722/8000"),
        ("9 18", ["a=rtpmap:18 G729/8000"], "g722/8000, g729/8000"),
        ("111", ["a=rtpmap:111 opus/8000"], "opus/8000"),
        ("13", [], "cn/8000"),
        ("111", [], "none"),
        ("011", ["a=rtpmap:011 opus/48000/2"], "none"),
        ("75", ["a=rtpmap:75 opus/48000/2"], "opus/48000"),
    ],
)
def test_section_without_any_codec_of_ours_is_refused_with_what_it_offers(
    formats: str, lines: list[str], offered: str
) -> None:
    with pytest.raises(UnsupportedOffer, match="neither opus/48000 nor PCMU/8000 nor PCMA/8000") as caught:
        answer_offer(with_codecs(formats, *lines), LOCAL)
    assert f"(codecs: {offered})" in caught.value.message


def test_refusal_names_no_more_than_a_line_holds() -> None:
    lines = [f"a=rtpmap:{number} {'x' * 60}{number}/8000" for number in range(96, 120)]
    with pytest.raises(UnsupportedOffer) as caught:
        answer_offer(with_codecs(" ".join(map(str, range(96, 120))), *lines), LOCAL)
    assert len(caught.value.message) < 250


# ---- later offers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "later", "kept"),
    [
        ("0 8", "8 0", "PCMU"),
        ("8", "111 0 8", "PCMA"),
        ("111 0", "0 111", "opus"),
    ],
)
def test_later_offer_keeps_the_codec_though_it_prefers_another(first: str, later: str, kept: str) -> None:
    previous = answer_offer(with_codecs(first, OPUS), LOCAL)
    agreed = answer_offer(with_codecs(later, OPUS), LOCAL, previous)
    assert agreed.audio == previous.audio and agreed.audio.codec == kept


@pytest.mark.parametrize(("first", "later"), [("0", "8"), ("0", "111"), ("111", "0 8")])
def test_later_offer_without_the_codec_in_use_is_refused(first: str, later: str) -> None:
    previous = answer_offer(with_codecs(first, OPUS), LOCAL)
    with pytest.raises(UnsupportedOffer, match=f"drops {previous.audio.codec}") as caught:
        answer_offer(with_codecs(later, OPUS), LOCAL, previous)
    assert "new session" in caught.value.hint


def test_later_offer_keeps_the_payload_type_where_it_has_several_of_the_codec() -> None:
    previous = answer_offer(with_codecs("111", OPUS), LOCAL)
    agreed = answer_offer(with_codecs("96 111", OPUS, "a=rtpmap:96 opus/48000/2"), LOCAL, previous)
    assert agreed.audio.payload_type == 111


def test_later_offer_may_give_the_codec_another_number() -> None:
    previous = answer_offer(with_codecs("111", OPUS), LOCAL)
    agreed = answer_offer(with_codecs("96", "a=rtpmap:96 opus/48000/2"), LOCAL, previous)
    assert agreed.audio == opus(96)


def test_later_offer_may_take_red_away_and_bring_it_back() -> None:
    with_red = answer_offer(offers.read("S41"), LOCAL)
    without = answer_offer(with_lines(offers.read("S41"), {"a=rtpmap:63": None}), LOCAL, with_red)
    again = answer_offer(offers.read("S41"), LOCAL, without)
    assert [agreed.audio.red_payload_type for agreed in (with_red, without, again)] == [63, None, 63]
