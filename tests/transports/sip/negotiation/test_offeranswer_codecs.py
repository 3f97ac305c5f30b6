"""Which codec is answered, and what beside it."""

from __future__ import annotations

import pytest

from rtc_server.media.audioformat import MAX_BITRATE_BPS, CodecName
from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia, TelephoneEvent
from rtc_server.transports.sip.negotiation.codecs import MIN_BITRATE_BPS
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from tests.transports.sip.negotiation.bodies import ALL_CODECS, body, call, lines, media_lines, read

EVENTS = "a=rtpmap:101 telephone-event/8000"


def agreed(offer: bytes, codecs: tuple[CodecName, ...] = ALL_CODECS) -> AgreedMedia:
    negotiation = call(codecs)
    negotiation.answer_offer(offer)
    assert negotiation.agreed is not None
    return negotiation.agreed


@pytest.mark.parametrize(
    ("codecs", "chosen"),
    [(ALL_CODECS, "PCMA"), (("PCMU", "PCMA"), "PCMA"), (("G722", "PCMU"), "PCMU"), (("G722",), "G722")],
)
def test_the_order_of_the_offer_decides_among_what_the_trunk_allows(codecs: tuple[CodecName, ...], chosen: str) -> None:
    assert agreed(read("phone_with_pcma_first"), codecs).audio.codec == chosen


def test_the_clock_of_g722_is_8000_on_the_wire() -> None:
    negotiation = call(("G722",))
    answer = negotiation.answer_offer(read("phone_with_pcma_first"))
    assert {"m=audio 40000 RTP/AVP 9 101", "a=rtpmap:9 G722/8000"} <= set(lines(answer))
    assert negotiation.agreed is not None
    assert (negotiation.agreed.audio.clock_hz, negotiation.agreed.audio.payload_type) == (8000, 9)
    assert negotiation.agreed.telephone_event == TelephoneEvent(101, 8000)


def test_opus_at_8000_is_no_opus() -> None:
    negotiation = call()
    answer = negotiation.answer_offer(read("opus_at_8000"))
    assert media_lines(answer) == ["m=audio 40000 RTP/AVP 0 127"]
    assert "a=rtpmap:127 telephone-event/8000" in lines(answer)


@pytest.mark.parametrize(
    ("codecs", "formats", "event"),
    [(ALL_CODECS, "96 97", TelephoneEvent(97, 48_000)), (("PCMA",), "8 101", TelephoneEvent(101, 8000))],
)
def test_events_have_the_clock_of_the_codec(codecs: tuple[CodecName, ...], formats: str, event: TelephoneEvent) -> None:
    negotiation = call(codecs)
    answer = negotiation.answer_offer(read("events_at_two_clocks"))
    assert media_lines(answer) == [f"m=audio 40000 RTP/AVP {formats}"]
    assert f"a=rtpmap:{event.payload_type} telephone-event/{event.clock_hz}" in lines(answer)
    assert negotiation.agreed is not None
    assert negotiation.agreed.telephone_event == event


def test_beside_opus_events_at_8000_are_better_than_none() -> None:
    media = agreed(body("m=audio 4000 RTP/AVP 111 101", "a=rtpmap:111 opus/48000/2", EVENTS))
    assert (media.audio.codec, media.telephone_event) == ("opus", TelephoneEvent(101, 8000))


@pytest.mark.parametrize("line", ["a=rtpmap:101 telephone-event/16000", "a=rtpmap:101 tone/8000", "a=x"])
def test_no_events_are_agreed_on_that_the_offer_does_not_have(line: str) -> None:
    assert agreed(body("m=audio 4000 RTP/AVP 0 101", line)).telephone_event is None


@pytest.mark.parametrize("formats", ["0 13", "13 0", "8 13", "9 13"])
def test_comfort_noise_is_taken_where_it_is_offered(formats: str) -> None:
    negotiation = call()
    answer = negotiation.answer_offer(body(f"m=audio 4000 RTP/AVP {formats}"))
    assert "a=rtpmap:13 CN/8000" in lines(answer)
    assert negotiation.agreed is not None
    assert negotiation.agreed.audio.comfort_noise_payload_type == 13


def test_comfort_noise_has_no_place_beside_opus() -> None:
    offer = body("m=audio 4000 RTP/AVP 111 13", "a=rtpmap:111 opus/48000/2", "a=rtpmap:13 CN/8000")
    assert agreed(offer).audio.comfort_noise_payload_type is None


@pytest.mark.parametrize(
    ("media", "codec", "payload_type"),
    [
        (["m=audio 4000 RTP/AVP 0"], "PCMU", 0),
        (["m=audio 4000 RTP/AVP 97", "a=rtpmap:97 PcMa/8000/1"], "PCMA", 97),
        (["m=audio 4000 RTP/AVP 97", "a=rtpmap: 97  OPUS / 48000"], "opus", 97),
        (["m=audio 4000 RTP/AVP 0 8", "a=rtpmap:0 X/8000"], "PCMA", 8),
        (["m=audio 4000 RTP/AVP 97 8", "a=rtpmap:97 PCMU/16000"], "PCMA", 8),
        (["m=audio 4000 RTP/AVP 97 8", "a=rtpmap:97 PCMU/8000/2"], "PCMA", 8),
        (["m=audio 4000 RTP/AVP 97 8", "a=rtpmap:97 G722/16000"], "PCMA", 8),
        (["m=audio 4000 RTP/AVP 200 999999 x 08", "a=rtpmap:200 PCMU/8000"], "PCMA", 8),
        (["m=audio 4000 RTP/AVP 72 8", "a=rtpmap:72 PCMU/8000", "a=rtcp-mux"], "PCMA", 8),
    ],
)
def test_payload_types_mean_what_the_offer_says(media: list[str], codec: str, payload_type: int) -> None:
    audio = agreed(body(*media)).audio
    assert (audio.codec, audio.payload_type) == (codec, payload_type)


@pytest.mark.parametrize(
    ("parameters", "bitrate_bps"),
    [
        ("useinbandfec=1", MAX_BITRATE_BPS),
        ("useinbandfec=1; MaxAverageBitrate=20000", 20_000),
        ("maxaveragebitrate=1", MIN_BITRATE_BPS),
        ("maxaveragebitrate=510000", MAX_BITRATE_BPS),
        ("maxaveragebitrate=x", MAX_BITRATE_BPS),
    ],
)
def test_our_opus_keeps_below_the_bitrate_of_the_offer(parameters: str, bitrate_bps: int) -> None:
    offer = body("m=audio 4000 RTP/AVP 111", "a=rtpmap:111 opus/48000/2", "a=fmtp:0 x", f"a=fmtp:111 {parameters}")
    assert agreed(offer).audio.max_bitrate_bps == bitrate_bps


def test_a_call_has_no_codec_that_its_trunk_does_not_allow() -> None:
    with pytest.raises(MediaRefused, match="none of G722 in pcmu/8000, pcma/8000"):
        agreed(body("m=audio 4000 RTP/AVP 0 8"), ("G722",))
