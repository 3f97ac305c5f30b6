"""Other requests within a call, from either end."""

from __future__ import annotations

import asyncio
import errno

import pytest

from rtc_server.errors import BadRequest, NotConnected, TransferRefused
from rtc_server.events import Dtmf
from rtc_server.transports.sip.call.call import CallState
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.headers import CSeq
from tests.transports.sip.call.fakes import World, events_of
from tests.transports.sip.call.phone import THEM, US, Phone


@pytest.mark.parametrize(
    ("content_type", "body", "digit"),
    [
        ("application/dtmf-relay", "Signal=5\r\nDuration=160\r\n", "5"),
        ("application/dtmf-relay", "Signal= *\r\nDuration= 250", "*"),
        ("application/dtmf-relay", "signal=11", "#"),
        ("application/dtmf", "7", "7"),
        ("application/dtmf", "d", "D"),
    ],
)
async def test_digit_in_an_info_is_heard(world: World, content_type: str, body: str, digit: str) -> None:
    phone = await world.answered()
    phone.send("INFO", body, f"Content-Type: {content_type}")
    assert phone.new() == ["200"]
    assert world.leg.last_of(Dtmf).digit == digit


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/dtmf-relay", "Signal=55", "400"),
        ("application/dtmf", "", "200"),
        ("application/dtmf", "x", "400"),
        ("application/media_control+xml", "<x/>", "415"),
    ],
)
async def test_info_without_a_digit_changes_nothing(world: World, content_type: str, body: str, status: str) -> None:
    phone = await world.answered()
    phone.send("INFO", body, f"Content-Type: {content_type}")
    assert phone.new() == [status]
    assert world.leg.of(Dtmf) == []


async def test_options_in_a_call_says_what_we_can_do(world: World) -> None:
    phone = await world.answered()
    phone.send("OPTIONS")
    assert phone.new() == ["200"]
    assert "INVITE" in phone.last.headers.all("Allow")


async def test_unknown_method_in_a_call_is_not_allowed(world: World) -> None:
    phone = await world.answered()
    phone.send("PUBLISH")
    assert phone.new() == ["405"]
    assert "INVITE" in phone.last.headers.all("Allow")


async def test_extension_that_is_unknown_is_refused_in_a_call_too(world: World) -> None:
    phone = await world.answered()
    phone.send("INVITE", headers="Require: precondition")
    await world.settle()
    assert phone.new() == ["420"]
    phone.send("INFO", headers="Require: strange")
    assert phone.new() == ["420"]
    assert phone.last.headers.get("Unsupported") == "strange"


async def test_silent_peer_is_asked_and_lives_on_when_it_answers(world: World) -> None:
    phone = await world.answered()
    await world.advance(19)
    assert phone.new() == []
    await world.advance(1.2)
    assert phone.new() == ["OPTIONS"]
    phone.answer(200, to="OPTIONS")
    await world.advance(19)
    assert phone.new() == []
    assert world.call.state is CallState.ANSWERED
    assert world.leg.last_sign_of_life_s > 20


async def test_peer_whose_audio_comes_is_not_asked(world: World) -> None:
    phone = await world.answered()
    for _ in range(10):
        world.leg.last_audio_s = world.time.now_s
        await world.advance(10)
    assert phone.new() == []


@pytest.mark.parametrize("status", [481, 408])
async def test_peer_that_knows_nothing_of_the_call_ends_it(world: World, status: int) -> None:
    phone = await world.answered()
    call = world.call
    await world.advance(21)
    phone.answer(status, to="OPTIONS")
    await world.settle()
    assert call.end_reason == "peer_gone"
    phone.answer(481, to="BYE")
    await world.assert_nothing_left()


async def test_peer_that_answers_nothing_any_more_ends_it(world: World) -> None:
    await world.answered()
    call = world.call
    await world.advance(60)
    assert call.end_reason == "peer_gone"
    await world.assert_nothing_left()


async def test_caller_who_is_silent_for_minutes_stays_while_the_dialog_lives(world: World) -> None:
    phone = await world.answered()
    for _ in range(8):
        await world.advance(20.5)
        if "OPTIONS" in phone.new():
            phone.answer(200, to="OPTIONS")
    assert world.time.now_s > 160
    assert world.call.state is CallState.ANSWERED


async def test_refer_is_declined(world: World) -> None:
    phone = await world.answered()
    phone.send("REFER", headers="Refer-To: <sip:+15550123@198.51.100.7>")
    assert phone.new() == ["603"]
    assert world.call.state is CallState.ANSWERED


async def transfer(world: World, phone: Phone, target: str = "sip:+15550123@198.51.100.7") -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(world.call.transfer(target))
    await world.settle()
    return task


def notify(phone: Phone, line: str, event: str = "refer") -> None:
    headers = f"Event: {event}\r\nSubscription-State: active\r\nContent-Type: message/sipfrag;version=2.0"
    phone.send("NOTIFY", line, headers)


def id_of_refer(phone: Phone) -> str:
    """Of the last one, as a NOTIFY names it."""
    return f"refer;id={CSeq.parse(phone.last_request('REFER').headers.get('CSeq') or '').number}"


async def test_transfer_that_works_ends_the_call(world: World) -> None:
    phone = await world.answered()
    call = world.call
    task = await transfer(world, phone)
    refer = phone.last_request("REFER")
    assert refer.headers.get("Refer-To") == "<sip:+15550123@198.51.100.7>"
    assert refer.headers.get("Referred-By") == "<sip:+15550100@192.0.2.10>"
    phone.answer(202, to="REFER")
    await task
    for line in ("100 Trying", "180 Ringing", "180 Ringing"):
        notify(phone, f"SIP/2.0 {line}\r\n")
    assert world.call.state is CallState.ANSWERED
    notify(phone, "SIP/2.0 200 OK\r\n")
    await world.settle()
    assert call.end_reason == "transferred"
    assert phone.new() == ["REFER", "200", "200", "200", "200", "BYE"]
    told = [(event["type"], event.get("status")) for event in await events_of(call)]
    assert told[2:] == [("transfer", 100), ("transfer", 180), ("transferred", 200), ("ended", None)]
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_transfer_that_fails_leaves_the_call(world: World) -> None:
    phone = await world.answered()
    task = await transfer(world, phone)
    phone.answer(202, to="REFER")
    await task
    notify(phone, "SIP/2.0 486 Busy Here\r\n")
    await world.advance(15)
    assert world.call.state is CallState.ANSWERED
    assert (await events_of(world.call))[-1] == {"type": "transfer", "status": 486}


async def test_second_transfer_tells_anew_how_it_goes(world: World) -> None:
    phone = await world.answered()
    for _ in range(2):
        task = await transfer(world, phone)
        phone.answer(202, to="REFER")
        await task
        notify(phone, "SIP/2.0 486 Busy Here\r\n")
    told = [event["status"] for event in await events_of(world.call) if event["type"] == "transfer"]
    assert told == [100, 486, 100, 486]


@pytest.mark.parametrize("late", ["486 Busy Here", "200 OK"])
@pytest.mark.parametrize("accepted", [True, False])
async def test_notify_of_an_earlier_transfer_changes_nothing_for_the_next(
    world: World, late: str, accepted: bool
) -> None:
    phone = await world.answered()
    call = world.call
    await transfer(world, phone)
    first = id_of_refer(phone)
    phone.answer(202, to="REFER")
    notify(phone, "SIP/2.0 486 Busy Here\r\n", first)
    task = await transfer(world, phone)
    second = id_of_refer(phone)
    phone.new()
    if accepted:
        phone.answer(202, to="REFER")
    notify(phone, f"SIP/2.0 {late}\r\n", first)
    await world.settle()
    assert phone.new() == ["481"]
    assert task.done() is accepted
    phone.answer(202, to="REFER")
    notify(phone, "SIP/2.0 180 Ringing\r\n", f"REFER ; ID={second.partition('=')[2]}")
    notify(phone, "SIP/2.0 200 OK\r\n", second)
    await world.settle()
    assert phone.new() == ["200", "200", "BYE"]
    told = [event["status"] for event in await events_of(call) if event["type"].startswith("transfer")]
    assert told == [100, 486, 100, 180, 200]


async def test_notify_names_the_request_that_brought_the_password(world: World) -> None:
    phone = await world.answered()
    call = world.call
    await transfer(world, phone)
    first = id_of_refer(phone)
    phone.answer(407, headers='Proxy-Authenticate: Digest realm="r", nonce="n", qop="auth"', to="REFER")
    await world.settle()
    phone.new()
    assert id_of_refer(phone) != first
    phone.answer(202, to="REFER")
    notify(phone, "SIP/2.0 200 OK\r\n", id_of_refer(phone))
    await world.settle()
    assert phone.new() == ["200", "BYE"]
    assert call.end_reason == "transferred"


async def test_transfer_that_is_refused_is_told_to_who_wanted_it(world: World) -> None:
    phone = await world.answered()
    task = await transfer(world, phone)
    phone.answer(603, to="REFER")
    with pytest.raises(TransferRefused, match="603"):
        await task
    assert world.call.state is CallState.ANSWERED


async def test_transfer_of_which_nothing_is_heard_ends_the_call(world: World) -> None:
    phone = await world.answered()
    call = world.call
    task = await transfer(world, phone)
    phone.answer(202, to="REFER")
    await task
    for _ in range(7):
        await world.advance(10)
        if "OPTIONS" in phone.new():
            phone.answer(200, to="OPTIONS")
    assert call.end_reason == "transferred"


async def test_peer_that_hangs_up_after_the_transfer_was_transferred(world: World) -> None:
    phone = await world.answered()
    call = world.call
    task = await transfer(world, phone)
    phone.answer(202, to="REFER")
    await task
    phone.send("BYE")
    await world.settle()
    assert call.end_reason == "transferred"
    assert phone.new() == ["REFER", "200"]
    await world.assert_nothing_left()


async def test_call_that_ends_ends_the_wait_for_its_transfer(world: World) -> None:
    phone = await world.answered()
    task = await transfer(world, phone)
    phone.send("BYE")
    with pytest.raises(NotConnected, match="ended"):
        await task


@pytest.mark.parametrize(
    "target", ["", "nobody", "sip:a@b\r\nX: y", "http://example.com", "sip:<x>@y", "sip:\U0001f600@y"]
)
async def test_transfer_to_no_uri_is_refused(world: World, target: str) -> None:
    await world.answered()
    with pytest.raises(BadRequest):
        await world.call.transfer(target)


async def test_notify_of_an_event_that_cannot_be_read_is_malformed(world: World) -> None:
    phone = await world.answered()
    await transfer(world, phone)
    phone.new()
    notify(phone, "SIP/2.0 200 OK\r\n", "refer;id=1;id=2")
    assert phone.new() == ["400"]
    assert world.call.state is CallState.ANSWERED


async def test_notify_of_nothing_we_asked_for_is_unknown(world: World) -> None:
    phone = await world.answered()
    notify(phone, "SIP/2.0 200 OK")
    assert phone.new() == ["481"]
    assert world.call.state is CallState.ANSWERED


async def test_digits_are_pressed(world: World) -> None:
    await world.answered()
    world.call.send_digits("12#a")
    assert world.leg.digits == ["12#A"]
    for wrong in ("", "x", "1" * 33):
        with pytest.raises(BadRequest):
            world.call.send_digits(wrong)


async def test_what_needs_an_answered_call_says_so(world: World) -> None:
    await world.ringing()
    with pytest.raises(NotConnected):
        world.call.send_digits("1")
    with pytest.raises(NotConnected):
        await world.call.transfer("sip:a@b")


async def test_what_needs_a_call_says_that_it_has_ended(world: World) -> None:
    phone = await world.answered()
    call = world.call
    phone.send("BYE")
    await world.settle()
    with pytest.raises(NotConnected, match="this call has ended: peer_closed"):
        call.send_digits("1")
    with pytest.raises(NotConnected, match="this call has ended: peer_closed"):
        await call.transfer("sip:a@b")


async def test_request_for_a_call_that_is_over_is_unknown(world: World) -> None:
    phone = await world.answered()
    phone.send("BYE")
    await world.settle()
    phone.new()
    phone.send("INFO")
    assert phone.new() == ["481"]


async def test_closed_connection_makes_us_ask_at_once(world: World) -> None:
    phone = await world.answered()
    world.network.break_flow(phone.flow)
    await world.settle()
    assert phone.new() == ["OPTIONS"]
    phone.answer(200, to="OPTIONS")
    await world.advance(10)
    assert world.call.state is CallState.ANSWERED
    assert world.network.connected[-1].host == "198.51.100.7"


async def test_connection_that_closes_over_a_request_of_ours_is_opened_again(world: World) -> None:
    flow = Flow("tcp", US, THEM)
    phone = await world.answered(world.phone(flow, f"<sip:1001@{THEM[0]};transport=tcp>"))
    await world.advance(21)
    assert phone.new() == ["OPTIONS"]
    world.network.break_flow(flow)
    await world.settle()
    assert phone.new() == ["OPTIONS"]
    phone.answer(200, to="OPTIONS")
    await world.advance(10)
    assert world.call.state is CallState.ANSWERED


async def test_bye_over_a_broken_connection_is_said_again_over_a_new_one(world: World) -> None:
    flow = Flow("tcp", US, THEM)
    phone = await world.answered(world.phone(flow, f"<sip:1001@{THEM[0]};transport=tcp>"))
    world.call.hangup()
    assert phone.new() == ["BYE"]
    world.network.break_flow(flow)
    await world.settle()
    assert phone.new() == ["BYE"]
    assert len(world.network.connected) == 1
    assert phone.last_request("BYE").headers.get("CSeq") == "2 BYE"
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_bye_is_said_over_a_new_connection_once(world: World) -> None:
    flow = Flow("tcp", US, THEM)
    phone = await world.answered(world.phone(flow, f"<sip:1001@{THEM[0]};transport=tcp>"))
    world.network.error = ConnectionError()
    world.call.hangup()
    await world.assert_nothing_left()
    assert phone.new() == []
    assert len(world.network.connected) == 1


@pytest.mark.parametrize("error", [errno.ENOBUFS, errno.ECONNREFUSED, errno.ENETUNREACH])
async def test_datagram_that_cannot_leave_just_now_is_sent_again(world: World, error: int) -> None:
    phone = await world.answered()
    world.network.error = OSError(error, "for a moment")
    await world.advance(21)
    assert world.call.state is CallState.ANSWERED
    world.network.error = None
    await world.advance(2)
    assert "OPTIONS" in phone.new()
    phone.answer(200, to="OPTIONS")
    await world.advance(15)
    assert world.call.state is CallState.ANSWERED


async def test_datagrams_that_can_never_leave_end_the_call_when_the_time_is_up(world: World) -> None:
    await world.answered()
    call = world.call
    world.network.error = OSError(errno.ENOBUFS, "for ever")
    await world.advance(51)
    assert call.state is CallState.ANSWERED
    await world.advance(2)
    assert call.end_reason == "peer_gone"
    await world.assert_nothing_left()


async def test_connection_that_is_gone_for_good_ends_the_call(world: World) -> None:
    phone = await world.answered()
    call = world.call
    world.network.unreachable = True
    world.network.break_flow(phone.flow)
    await world.settle()
    assert call.end_reason == "peer_gone"
    await world.assert_nothing_left()
