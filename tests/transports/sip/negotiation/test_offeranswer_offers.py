"""Offers of ours: in an INVITE that we send, or in the 200 to one without an offer."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.negotiation.agreedmedia import TelephoneEvent
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from tests.transports.sip.negotiation.bodies import body, call, lines, media_lines, read, version

AUDIO = "m=audio 4000 RTP/AVP 0"


def test_an_offer_has_every_codec_of_the_trunk_and_events_at_their_clocks() -> None:
    assert lines(call().make_offer())[5:] == [
        "m=audio 40000 RTP/AVP 96 9 0 8 101 102",
        "a=rtpmap:96 opus/48000/2",
        "a=fmtp:96 useinbandfec=1;usedtx=0;stereo=0;sprop-stereo=0;"
        "maxplaybackrate=24000;sprop-maxcapturerate=24000;maxaveragebitrate=40000",
        "a=rtpmap:9 G722/8000",
        "a=rtpmap:0 PCMU/8000",
        "a=rtpmap:8 PCMA/8000",
        "a=rtpmap:101 telephone-event/8000",
        "a=fmtp:101 0-15",
        "a=rtpmap:102 telephone-event/48000",
        "a=fmtp:102 0-15",
        "a=ptime:20",
        "a=sendrecv",
    ]


def test_the_answer_to_a_delayed_offer_comes_in_the_ack() -> None:
    negotiation = call(("PCMU", "PCMA"))
    assert media_lines(negotiation.make_offer()) == ["m=audio 40000 RTP/AVP 0 8 101"]
    assert negotiation.agreed is None
    assert negotiation.offer_pending
    media = negotiation.take_answer(read("answer_in_ack"))
    assert not negotiation.offer_pending
    assert media is negotiation.agreed
    assert (media.audio.codec, media.remote_rtp, media.direction) == ("PCMU", ("198.51.100.7", 16105), "sendrecv")
    assert media.telephone_event == TelephoneEvent(101, 8000)


def test_of_several_codecs_in_an_answer_the_first_is_used() -> None:
    negotiation = call()
    negotiation.make_offer()
    media = negotiation.take_answer(body("m=audio 4000 RTP/AVP 8 0 102 101", "a=rtpmap:102 telephone-event/48000"))
    assert (media.audio.codec, media.telephone_event) == ("PCMA", TelephoneEvent(101, 8000))


def test_an_answer_may_leave_out_what_our_payload_types_mean() -> None:
    negotiation = call()
    negotiation.make_offer()
    media = negotiation.take_answer(body("m=audio 4000 RTP/AVP 96 102"))
    assert (media.audio.codec, media.audio.payload_type, media.telephone_event) == (
        "opus",
        96,
        TelephoneEvent(102, 48_000),
    )


def test_one_port_for_rtp_and_rtcp_needs_the_offer_too() -> None:
    negotiation = call()
    negotiation.make_offer()
    media = negotiation.take_answer(body(AUDIO, "a=rtcp-mux"))
    assert (media.rtcp_mux, media.remote_rtcp) == (False, ("198.51.100.7", 4001))
    negotiation.answer_offer(body(AUDIO, "a=rtcp-mux"))
    assert "a=rtcp-mux" in lines(negotiation.make_offer())
    media = negotiation.take_answer(body(AUDIO, "a=rtcp-mux"))
    assert (media.rtcp_mux, media.remote_rtcp) == (True, ("198.51.100.7", 4000))


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"", 400),
        (body(), 488),
        (body("m=image 4000 udptl t38"), 488),
        (body("m=audio 0 RTP/AVP 0"), 488),
        (body("m=audio 4000 RTP/AVP 18"), 488),
        (body("m=audio 4000 RTP/SAVP 0"), 488),
        (body(AUDIO, address="IN IP4 224.0.0.1"), 488),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_still_awaited(answer: bytes, status: int) -> None:
    negotiation = call()
    negotiation.make_offer()
    with pytest.raises(MediaRefused) as refusal:
        negotiation.take_answer(answer)
    assert refusal.value.status == status
    assert negotiation.agreed is None
    assert negotiation.take_answer(body(AUDIO)).audio.codec == "PCMU"


def test_an_answer_without_an_offer_is_refused() -> None:
    negotiation = call()
    with pytest.raises(MediaRefused) as refusal:
        negotiation.take_answer(body(AUDIO))
    assert refusal.value.status == 400
    negotiation.answer_offer(body(AUDIO))
    with pytest.raises(MediaRefused):
        negotiation.take_answer(body(AUDIO))


def test_the_answer_of_another_fork_replaces_that_of_the_first() -> None:
    negotiation = call()
    negotiation.make_offer()
    early = negotiation.take_answer(body("m=audio 4000 RTP/AVP 8"))
    assert negotiation.take_answer(body("m=audio 4000 RTP/AVP 8")) == early
    media = negotiation.take_answer(body("m=audio 5000 RTP/AVP 0", address="IN IP4 203.0.113.9"))
    assert (media.audio.codec, media.remote_rtp) == ("PCMU", ("203.0.113.9", 5000))


def test_while_our_offer_waits_another_one_is_refused_and_changes_nothing() -> None:
    negotiation = call()
    negotiation.answer_offer(body(AUDIO))
    before = negotiation.agreed
    negotiation.make_offer()
    with pytest.raises(MediaRefused) as refusal:
        negotiation.answer_offer(body(AUDIO))
    assert refusal.value.status == 491
    negotiation.drop_offer()
    assert negotiation.agreed is before
    negotiation.answer_offer(body("m=audio 4002 RTP/AVP 0"))
    assert negotiation.agreed is not None
    assert negotiation.agreed.remote_rtp == ("198.51.100.7", 4002)


def test_an_offer_that_is_made_again_is_the_same_byte_for_byte() -> None:
    negotiation = call(srtp="never")
    assert negotiation.make_offer() == negotiation.make_offer()
    negotiation.take_answer(body("m=audio 4000 RTP/AVP 96"))
    first = negotiation.make_offer()
    negotiation.take_answer(body("m=audio 4000 RTP/AVP 96"))
    assert negotiation.make_offer() == first


def test_versions_count_offers_and_answers_of_ours_together() -> None:
    negotiation = call()
    descriptions = [negotiation.make_offer()]
    negotiation.take_answer(body(AUDIO))
    descriptions.append(negotiation.answer_offer(body(AUDIO)))
    descriptions.append(negotiation.answer_offer(body(AUDIO, "a=sendonly")))
    descriptions.append(negotiation.make_offer())
    assert [version(description) for description in descriptions] == [1, 2, 3, 4]


def test_a_later_offer_keeps_the_places_of_all_sections_and_the_codec_in_use_first() -> None:
    negotiation = call()
    negotiation.answer_offer(body("m=video 5000 RTP/AVP 31", "m=audio 4000 RTP/AVP 8", "m=audio 4002 RTP/AVP 0"))
    assert media_lines(negotiation.make_offer()) == [
        "m=video 0 RTP/AVP 31",
        "m=audio 40000 RTP/AVP 8 96 9 0 101 102",
        "m=audio 0 RTP/AVP 0",
    ]
    media = negotiation.take_answer(body("m=video 0 RTP/AVP 31", "m=audio 4000 RTP/AVP 8", "m=audio 0 RTP/AVP 0"))
    assert media.audio.codec == "PCMA"


def test_payload_types_keep_their_meaning_in_a_later_offer() -> None:
    negotiation = call()
    offer = body(
        "m=audio 4000 RTP/AVP 0 101 96 102 120",
        "a=rtpmap:96 AMR/8000",
        "a=rtpmap:101 opus/48000/2",
        "a=rtpmap:120 telephone-event/8000",
    )
    negotiation.answer_offer(offer)
    again = lines(negotiation.make_offer())
    assert {"a=rtpmap:101 opus/48000/2", "a=rtpmap:120 telephone-event/8000"} <= set(again)
    assert not [line for line in again if line.startswith("a=rtpmap:96 ")]


def test_numbers_for_payload_types_do_not_run_out() -> None:
    negotiation = call()
    taken = [number for number in range(128) if number not in (0, *range(64, 96))]
    maps = [f"a=rtpmap:{number} X/8000" for number in taken]
    negotiation.answer_offer(body(f"m=audio 4000 RTP/AVP 0 {' '.join(map(str, taken))}", *maps))
    assert media_lines(negotiation.make_offer())[0].startswith("m=audio 40000 RTP/AVP 0 ")
