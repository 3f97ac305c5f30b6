"""Messages of both ends that cross on their way (RFC 5407)."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.call.call import Call, CallState
from tests.transports.sip.call.fakes import World, events_of
from tests.transports.sip.call.phone import Phone, sdp
from tests.transports.sip.call.test_indialog import notify, transfer

UPDATES = "Allow: INVITE, ACK, BYE, CANCEL, UPDATE\r\nSupported: timer\r\nSession-Expires: 90;refresher=uas"


async def refreshing(world: World) -> tuple[Call, Phone]:
    """A call in which an UPDATE of ours is under way."""
    phone = await world.answered(headers=UPDATES)
    call = world.call
    world.leg.expects_audio = False  # nobody asks for life
    await world.advance(45.1)
    assert phone.new() == ["UPDATE"]
    return call, phone


async def test_bye_that_crosses_ours_is_welcome(world: World) -> None:
    phone = await world.answered()
    world.call.hangup()
    phone.send("BYE")
    assert phone.new() == ["BYE", "200"]
    phone.answer(481, to="BYE")
    await world.assert_nothing_left()


async def test_caller_who_hangs_up_before_its_ack_as_we_do_is_not_called_again(world: World) -> None:
    phone = await world.ringing()
    await world.tick(2)
    world.call.hangup()
    phone.new()
    phone.send("BYE")
    assert phone.new() == ["200"]
    await world.advance(70)
    assert phone.new() == []
    await world.assert_nothing_left()


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, "Session-Expires: 1800;refresher=uac"),
        (200, ""),
        (422, "Min-SE: 3600"),
        (491, ""),
        (405, ""),
    ],
)
async def test_answer_to_a_refresh_that_comes_behind_the_bye_starts_nothing(
    world: World, status: int, headers: str
) -> None:
    _, phone = await refreshing(world)
    phone.send("BYE")
    phone.answer(status, headers=headers, to="UPDATE")
    await world.advance(40)
    assert phone.new() == ["200"]
    await world.assert_nothing_left()


async def test_refresh_that_is_answered_before_the_ack_of_an_offer_leaves_the_offer(world: World) -> None:
    call, phone = await refreshing(world)
    phone.send("INVITE")
    assert phone.last.status == 200
    phone.answer(200, headers="Session-Expires: 90;refresher=uac", to="UPDATE")
    await world.settle()
    assert call.state is CallState.ANSWERED
    phone.ack(sdp(port=20_000))
    await world.settle()
    assert call.state is CallState.ANSWERED
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 20_000)


async def test_refresh_that_is_refused_before_the_ack_of_an_offer_leaves_the_offer(world: World) -> None:
    call, phone = await refreshing(world)
    phone.send("INVITE")
    phone.answer(500, to="UPDATE")
    phone.ack(sdp(port=20_000))
    await world.settle()
    assert call.state is CallState.ANSWERED
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 20_000)


async def test_hold_that_crosses_a_refresh_without_an_offer_is_taken(world: World) -> None:
    _, phone = await refreshing(world)
    phone.invite(sdp(direction="sendonly"))
    assert phone.last.status == 200
    assert world.leg.agreed.direction == "recvonly"


async def test_transfer_whose_success_is_told_before_it_is_accepted_has_worked(world: World) -> None:
    phone = await world.answered()
    call = world.call
    task = await transfer(world, phone)
    notify(phone, "SIP/2.0 200 OK\r\n")
    await task
    assert call.end_reason == "transferred"


async def test_transfer_whose_failure_is_told_before_it_is_accepted_leaves_the_call(world: World) -> None:
    phone = await world.answered()
    call = world.call
    task = await transfer(world, phone)
    notify(phone, "SIP/2.0 486 Busy Here\r\n")
    phone.answer(202, to="REFER")
    await task
    for _ in range(8):
        await world.advance(10)
        if "OPTIONS" in phone.new():
            phone.answer(200, to="OPTIONS")
    assert call.state is CallState.ANSWERED


async def test_call_that_is_held_from_the_first_says_so_behind_its_answer(world: World) -> None:
    phone = await world.answered(body=sdp(direction="inactive"))
    phone.invite(sdp(version=2))
    types = [event["type"] for event in await events_of(world.call)]
    assert types == ["ringing", "answered", "held", "resumed"]


async def test_hold_of_early_media_is_none_of_the_call(world: World) -> None:
    phone = world.phone()
    call = await world.agent.dial("+15550123")
    await world.settle()
    phone.answer(183, sdp(direction="sendonly"))
    phone.answer(200, sdp())
    await world.settle()
    assert [event["type"] for event in await events_of(call)] == ["early_media", "answered"]
