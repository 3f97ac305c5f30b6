"""An INVITE of ours that a proxy hands to several phones (RFC 3261 section 13.2.2.4): each has a dialog of its own, and
only one of them is the call."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.call.call import Call, CallState
from rtc_server.transports.sip.call.outbound import MAX_BRANCHES
from rtc_server.transports.sip.flow import Flow
from tests.transports.sip.call.fakes import World
from tests.transports.sip.call.phone import US, Phone, sdp


async def forked(world: World) -> tuple[Call, Phone]:
    """A call that ``first`` has answered, and ``second`` too late."""
    phone = world.phone()
    call = await world.agent.dial("+15550123")
    await world.settle()
    phone.answer(200, sdp(), tag="first")
    phone.answer(200, sdp(port=20_000), tag="second")
    await world.settle()
    assert phone.new() == ["INVITE", "ACK", "ACK", "BYE"]
    phone.tag = "second"
    phone.join(phone.last_request("INVITE"))
    return call, phone


@pytest.mark.parametrize("status", [481, 408])
async def test_branch_that_knows_nothing_of_our_bye_leaves_the_call(world: World, status: int) -> None:
    call, phone = await forked(world)
    phone.answer(status, to="BYE")
    await world.settle()
    assert call.state is CallState.ANSWERED


async def test_branch_that_never_answers_our_bye_leaves_the_call(world: World) -> None:
    call, phone = await forked(world)
    for _ in range(4):
        await world.advance(10)
        if "OPTIONS" in phone.new():
            phone.answer(200, to="OPTIONS")
    assert call.state is CallState.ANSWERED


async def test_branch_that_hangs_up_by_itself_leaves_the_call(world: World) -> None:
    call, phone = await forked(world)
    phone.send("BYE")
    await world.settle()
    assert phone.new() == ["200"]
    assert call.state is CallState.ANSWERED


async def test_branch_that_was_declined_changes_nothing_in_the_call(world: World) -> None:
    call, phone = await forked(world)
    phone.invite(sdp(port=30_000, direction="sendonly"))
    assert phone.last.status == 481
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 16384)
    phone.tag = "first"
    phone.join(phone.last_request("INVITE"))
    phone.cseq = 50  # its numbers are its own
    phone.invite(sdp(direction="sendonly"))
    assert phone.last.status == 200
    assert call.state is CallState.ANSWERED


async def test_ringing_phone_that_refuses_a_prack_leaves_the_others_ringing(world: World) -> None:
    phone = world.phone()
    call = await world.agent.dial("+15550123")
    await world.settle()
    phone.answer(183, "", "Require: 100rel\r\nRSeq: 7", tag="first")
    phone.answer(180, tag="second")
    phone.answer(481, to="PRACK")
    await world.settle()
    assert call.state is CallState.RINGING
    phone.answer(200, sdp(), tag="second")
    await world.settle()
    assert call.state is CallState.ANSWERED


async def test_phone_that_answers_is_heard_however_many_ring(world: World) -> None:
    phone = world.phone()
    call = await world.agent.dial("+15550123")
    await world.settle()
    for number in range(2 * MAX_BRANCHES):
        phone.answer(180, tag=f"phone-{number}")
    phone.answer(200, sdp(), tag=f"phone-{2 * MAX_BRANCHES - 1}")
    await world.settle()
    assert phone.new() == ["INVITE", "ACK"]
    assert call.state is CallState.ANSWERED
    assert world.agent.calls.dialogs <= MAX_BRANCHES + 1


@pytest.mark.parametrize("answers_last", [False, True])
async def test_ways_to_all_phones_are_let_go_when_the_call_is_over(world: World, answers_last: bool) -> None:
    others = [world.phone(Flow("udp", US, (f"203.0.113.{number}", 5060))) for number in range(3)]
    phone = world.phone()
    call = await world.agent.dial("+15550123")
    await world.settle()
    for number, other in enumerate(others):
        phone.answer(183, "", f"Require: 100rel\r\nRSeq: 7\r\nContact: {other.contact}", tag=f"phone-{number}")
    await world.settle()
    assert [other.new() for other in others] == [["PRACK"]] * 3
    assert world.network.held == [phone.flow, *(other.flow for other in others)]
    if answers_last:
        call.hangup()
        for number, other in enumerate(others):
            phone.answer(200, sdp(), f"Contact: {other.contact}", tag=f"phone-{number}")
        await world.settle()
        for other in others:
            assert "BYE" in other.new()
            other.answer(200, to="BYE")
    else:
        phone.answer(486)
    await world.settle()
    assert world.network.held == []
    await world.assert_nothing_left()


async def test_answer_without_a_tag_to_a_call_that_is_called_off_leaves_nothing(world: World) -> None:
    phone = world.phone()
    call = await world.agent.dial("+15550123")
    await world.settle()
    phone.answer(180)
    call.hangup()
    invite = phone.last_request("INVITE")
    lines = ["SIP/2.0 200 OK", f"Via: {invite.headers.get('Via')}", f"From: {invite.headers.get('From')}"]
    lines += [f"To: {invite.headers.get('To')}", f"Call-ID: {invite.headers.get('Call-ID')}", "CSeq: 1 INVITE"]
    phone.send_text("\r\n".join([*lines, "Content-Length: 0", "", ""]))
    phone.answer(200, to="CANCEL")
    await world.assert_nothing_left()
