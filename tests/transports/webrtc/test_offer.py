from __future__ import annotations

import pytest
from aiortc.sdp import SessionDescription

from rtc_server.errors import BadOffer
from rtc_server.transports.webrtc import offer as offer_module
from rtc_server.transports.webrtc.offer import Codec, parse_offer, whole_number
from tests.transports.webrtc import offers
from tests.transports.webrtc.offers import with_codecs, with_lines


@pytest.mark.parametrize("name", offers.names())
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
            assert ours.is_ice_lite(section) is media.ice.iceLite
            assert sorted((codec.payload_type, codec.name, codec.clock_hz) for codec in section.codecs()) == sorted(
                (codec.payloadType, codec.name.lower(), codec.clockRate) for codec in media.rtp.codecs
            )


def test_codecs_come_in_the_order_of_the_m_line_and_static_ones_need_no_rtpmap() -> None:
    sdp = with_codecs("13 111 0 8", "a=rtpmap:111 opus/48000/2", "a=fmtp:111 minptime=10;usedtx=1")
    assert parse_offer(sdp).sections[0].codecs() == [
        Codec(13, "cn", 8000),
        Codec(111, "opus", 48_000, 2, "minptime=10;usedtx=1"),
        Codec(0, "pcmu", 8000),
        Codec(8, "pcma", 8000),
    ]


def test_own_rtpmap_counts_more_than_the_static_table() -> None:
    assert parse_offer(with_codecs("0", "a=rtpmap:0 L16/44100/2")).sections[0].codecs() == [Codec(0, "l16", 44_100, 2)]


@pytest.mark.parametrize("line", ["a=rtpmap:96\tx/8000", "a=rtpmap:96  x/8000 ", "a=rtpmap:96 X/8000/1 more"])
def test_oddly_spaced_rtpmap_is_read(line: str) -> None:
    assert parse_offer(with_codecs("96", line)).sections[0].codecs() == [Codec(96, "x", 8000)]


@pytest.mark.parametrize("line", ["a=rtpmap:96 x", "a=rtpmap:96 é/8000", "a=rtpmap:096 x/8000", "a=rtpmap:96 x/y"])
def test_malformed_rtpmap_is_no_codec(line: str) -> None:
    assert parse_offer(with_codecs("96 096", line)).sections[0].codecs() == []


def test_parameters_are_found_whatever_their_case_and_spacing() -> None:
    codec = Codec(111, "opus", 48_000, 2, "minptime=10; MaxAverageBitrate = 20000;useinbandfec")
    assert codec.parameter("maxaveragebitrate") == "20000"
    assert codec.parameter("useinbandfec") == ""
    assert codec.parameter("ptime") is None


@pytest.mark.parametrize("in_section", [False, True])
def test_ice_lite_is_seen_in_the_session_and_in_the_section(in_section: bool) -> None:
    sdp = with_lines(offers.read("S01"), {"a=mid:0" if in_section else "a=group": "a=ice-lite"})
    offer = parse_offer(sdp)
    assert offer.is_ice_lite(offer.sections[0])


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), ("007", 7), ("10", 10), ("11", None), ("-1", None), ("", None), (None, None)]
)
def test_numbers_outside_their_range_are_none(text: str | None, value: int | None) -> None:
    assert whole_number(text, 0, 10) == value


@pytest.mark.parametrize("text", ["1.5", " 1", "\u0661", "1e3", "9" * 20, "0x1"])
def test_what_is_no_decimal_number_is_none(text: str) -> None:
    assert whole_number(text, 0, 2**63) is None


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
        parse_offer(sdp)
