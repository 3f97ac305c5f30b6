"""Answers that come before the call is answered (RFC 3261 section 13.2.1): whose audio it is that is heard then, and
whose it is behind the 200."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.call.call import Call, CallState
from tests.transports.sip.call.fakes import World, events_of
from tests.transports.sip.call.phone import Phone, sdp

ANNOUNCEMENT, HUMAN = 20_000, 30_000
"""Ports of their audio."""


async def dialled(world: World) -> tuple[Call, Phone]:
    phone = world.phone()
    call = await world.agent.dial("+15550123")
    await world.settle()
    phone.new()
    return call, phone


async def test_phone_that_answers_without_a_description_is_not_given_the_audio_of_another(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(183, sdp(port=ANNOUNCEMENT), tag="announcement")
    phone.answer(200, tag="human")
    await world.settle()
    assert (call.end_reason, call.end_detail) == ("media_refused", "the answer has no session description")
    assert phone.new() == ["ACK", "BYE"]
    assert (phone.last_request("BYE").headers.get("To") or "").endswith("tag=human")
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


@pytest.mark.parametrize("headers", ["", "Require: 100rel\r\nRSeq: 7"])
async def test_phone_that_answers_has_the_audio_that_it_named_itself_whichever_was_heard_last(
    world: World, headers: str
) -> None:
    call, phone = await dialled(world)
    phone.answer(183, sdp(port=HUMAN), headers, tag="human")
    phone.answer(183, sdp(port=ANNOUNCEMENT), headers, tag="announcement")
    await world.settle()
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", ANNOUNCEMENT)
    phone.answer(200, tag="human")
    await world.settle()
    assert call.state is CallState.ANSWERED
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", HUMAN)
    assert [event["type"] for event in await events_of(call)] == ["early_media", "answered"]


async def test_last_description_of_a_phone_is_its_answer(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(183, sdp(port=ANNOUNCEMENT))
    phone.answer(183, sdp(port=HUMAN, version=2))
    phone.answer(200)
    await world.settle()
    assert call.state is CallState.ANSWERED
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", HUMAN)


async def test_description_that_was_no_good_before_the_answer_is_none_behind_it(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(183, sdp(port=ANNOUNCEMENT), tag="announcement")
    phone.answer(183, sdp("18 G729/8000"), tag="human")
    phone.answer(200, tag="human")
    await world.settle()
    assert call.end_reason == "media_refused"


async def test_body_that_says_nothing_of_audio_takes_no_answer_away(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(183, sdp(port=HUMAN))
    phone.answer(183, "something else")
    phone.answer(200)
    await world.settle()
    assert call.state is CallState.ANSWERED
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", HUMAN)


async def test_early_media_of_an_attempt_that_was_challenged_is_no_answer_to_the_next(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(183, sdp(port=ANNOUNCEMENT))
    phone.answer(401, headers='WWW-Authenticate: Digest realm="r", nonce="n", qop="auth"')
    phone.answer(200)
    await world.settle()
    assert call.end_reason == "media_refused"


@pytest.mark.parametrize("tag", ["first", "second"])
async def test_answer_that_refuses_the_audio_is_no_hold_although_something_was_heard_before(
    world: World, tag: str
) -> None:
    call, phone = await dialled(world)
    phone.answer(183, sdp(port=ANNOUNCEMENT), tag="first")
    phone.answer(200, sdp(port=0), tag=tag)
    await world.settle()
    assert (call.end_reason, call.end_detail) == ("media_refused", "the answer refuses the audio")
    assert phone.new() == ["ACK", "BYE"]
    assert [event["type"] for event in await events_of(call)] == ["early_media", "ended"]
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()
