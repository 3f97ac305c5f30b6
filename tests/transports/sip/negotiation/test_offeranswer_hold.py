"""A call that the other end holds and takes up again."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from tests.transports.sip.negotiation.bodies import body, call, direction, media_lines, read, version

AUDIO = "m=audio 4000 RTP/AVP 0"


def running_call() -> MediaNegotiation:
    negotiation = call()
    negotiation.answer_offer(body(AUDIO))
    return negotiation


def agreed(negotiation: MediaNegotiation) -> AgreedMedia:
    assert negotiation.agreed is not None
    return negotiation.agreed


def test_hold_by_address_and_port_sends_nothing_until_the_call_is_resumed_on_another_port() -> None:
    negotiation = call()
    negotiation.answer_offer(read("hold_1_invite"))
    assert agreed(negotiation).remote_rtp == ("198.51.100.7", 16384)
    assert direction(negotiation.answer_offer(read("hold_2_zero_address"))) == "inactive"
    held = agreed(negotiation)
    assert (held.remote_rtp, held.remote_rtcp, held.sends_audio, held.expects_audio) == (None, None, False, False)
    assert direction(negotiation.answer_offer(read("hold_3_resume_on_another_port"))) == "sendrecv"
    assert (agreed(negotiation).remote_rtp, agreed(negotiation).remote_rtcp) == (
        ("198.51.100.7", 16400),
        ("198.51.100.7", 16401),
    )


@pytest.mark.parametrize(
    ("media", "address", "answered", "remote"),
    [
        ([AUDIO, "a=sendonly"], "IN IP4 198.51.100.7", "recvonly", ("198.51.100.7", 4000)),
        ([AUDIO, "a=inactive"], "IN IP4 198.51.100.7", "inactive", ("198.51.100.7", 4000)),
        (["a=sendonly", AUDIO], "IN IP4 198.51.100.7", "recvonly", ("198.51.100.7", 4000)),
        ([AUDIO], "IN IP4 0.0.0.0", "recvonly", None),
        ([AUDIO], "IN IP6 ::", "recvonly", None),
        ([AUDIO, "a=sendonly"], "IN IP4 0.0.0.0", "recvonly", None),
        ([AUDIO, "a=recvonly"], "IN IP4 0.0.0.0", "inactive", None),
        (["m=audio 9 RTP/AVP 0"], "IN IP4 198.51.100.7", "recvonly", None),
        (["m=audio 9 RTP/AVP 0", "a=inactive"], "IN IP4 198.51.100.7", "inactive", None),
    ],
)
def test_every_way_to_hold_is_answered_with_its_direction(
    media: list[str], address: str, answered: str, remote: tuple[str, int] | None
) -> None:
    negotiation = running_call()
    held = negotiation.answer_offer(body(*media, address=address))
    assert direction(held) == answered
    assert media_lines(held) == ["m=audio 40000 RTP/AVP 0"]
    assert (agreed(negotiation).direction, agreed(negotiation).remote_rtp) == (answered, remote)
    assert not agreed(negotiation).sends_audio
    resumed = negotiation.answer_offer(body(AUDIO))
    assert direction(resumed) == "sendrecv"
    assert agreed(negotiation).remote_rtp == ("198.51.100.7", 4000)
    assert [version(held), version(resumed)] == [2, 3]


def test_hold_by_port_0_is_answered_with_port_0() -> None:
    negotiation = running_call()
    before = agreed(negotiation)
    answer = negotiation.answer_offer(body("m=audio 0 RTP/AVP 0"))
    assert media_lines(answer) == ["m=audio 0 RTP/AVP 0"]
    held = agreed(negotiation)
    assert (held.direction, held.remote_rtp, held.remote_rtcp) == ("inactive", None, None)
    negotiation.answer_offer(body(AUDIO))
    assert agreed(negotiation) == before


def test_a_call_may_begin_on_hold() -> None:
    negotiation = call()
    assert direction(negotiation.answer_offer(body(AUDIO, "a=sendonly"))) == "recvonly"


def test_an_invite_without_an_offer_takes_a_held_call_up_again() -> None:
    """That the other end holds the call is its own affair: our offer is sendrecv."""
    negotiation = running_call()
    negotiation.answer_offer(body("m=audio 0 RTP/AVP 0"))
    offer = negotiation.make_offer()
    assert direction(offer) == "sendrecv"
    assert agreed(negotiation).direction == "inactive", "nothing changes before the answer"
    negotiation.take_answer(body("m=audio 4002 RTP/AVP 0"))
    assert (agreed(negotiation).direction, agreed(negotiation).remote_rtp) == ("sendrecv", ("198.51.100.7", 4002))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("sendonly", "recvonly"), ("inactive", "inactive"), ("recvonly", "sendonly"), ("sendrecv", "sendrecv")],
)
def test_an_answer_to_our_offer_may_hold_the_call_too(theirs: str, ours: str) -> None:
    negotiation = running_call()
    negotiation.make_offer()
    assert negotiation.take_answer(body(AUDIO, f"a={theirs}")).direction == ours
    assert direction(negotiation.make_offer()) == "sendrecv"


def test_an_answer_with_port_0_holds_a_running_call() -> None:
    negotiation = running_call()
    negotiation.make_offer()
    assert negotiation.take_answer(body("m=audio 0 RTP/AVP 0")).remote_rtp is None
    assert agreed(negotiation).direction == "inactive"


def test_an_answer_with_port_0_to_the_first_offer_refuses_the_audio_although_it_was_taken_before_the_200() -> None:
    negotiation = call()
    negotiation.make_offer()
    early = negotiation.take_answer(body(AUDIO))
    for _ in range(2):
        with pytest.raises(MediaRefused, match="refuses the audio"):
            negotiation.take_answer(body("m=audio 0 RTP/AVP 0"))
        assert agreed(negotiation) == early
    negotiation.make_offer()
    assert negotiation.take_answer(body("m=audio 0 RTP/AVP 0")).direction == "inactive", "a call that runs can be held"
