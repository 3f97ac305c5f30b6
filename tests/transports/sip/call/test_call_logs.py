"""What the log says of calls: enough to follow each one, and no number, no digit and no address."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.typing import EventDict

from rtc_server.errors import BadRequest, TransferRefused
from rtc_server.transports.sip.call.surroundings import LINES_OF_EACH
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.network.target import Target
from tests.logs import captured_logs, entry_of
from tests.transports.sip.call.fakes import TRUNK, World
from tests.transports.sip.call.phone import US, sdp
from tests.transports.sip.call.test_indialog import notify, transfer

GATEWAY = ("198.51.100.50", 5060)


def lines_of(logs: list[EventDict], call_id: str) -> list[str]:
    return [entry["event"] for entry in logs if entry.get("call_id") == call_id]


async def test_call_of_ours_has_a_line_when_it_is_dialled_without_the_number(world: World) -> None:
    with captured_logs() as logs:
        call = await world.agent.dial("+15550123", from_="+15550177")
    entry = entry_of(logs, "call dialled")
    assert (entry["call_id"], entry["session_id"], entry["trunk"]) == (call.id, call.session_id, "carrier")
    assert not [entry for entry in logs if "15550123" in str(entry) or "15550177" in str(entry)]


async def test_transfer_can_be_followed_without_the_number(world: World) -> None:
    phone = await world.answered()
    call = world.call
    with captured_logs() as logs:
        task = await transfer(world, phone)
        phone.answer(202, to="REFER")
        await task
        notify(phone, "SIP/2.0 180 Ringing\r\n")
        notify(phone, "SIP/2.0 200 OK\r\n")
        await world.settle()
    assert lines_of(logs, call.id) == [
        "transfer asked for",
        "transfer goes on",
        "transfer goes on",
        "transfer has worked",
        "call ended",
    ]
    assert [entry["status"] for entry in logs if "status" in entry] == [100, 180, 200]
    assert "15550123" not in str(logs)


async def test_transfer_that_does_not_come_about_says_why_without_the_number(world: World) -> None:
    phone = await world.answered()
    with captured_logs() as logs:
        task = await transfer(world, phone)
        phone.answer(603, to="REFER")
        with pytest.raises(TransferRefused):
            await task
        with pytest.raises(BadRequest):
            await world.call.transfer("+15550123 ")
    assert [entry["reason"] for entry in logs if entry["event"] == "transfer refused"] == [
        "the other end answered 603",
        "bad_request",
    ]
    assert "15550123" not in str(logs)


async def test_transfer_by_the_other_end_names_both_calls_and_no_number() -> None:
    world = World(trunks=[replace(TRUNK, refer="accept", target=Target("udp", *GATEWAY))])
    phone, third = await world.answered(), world.phone(Flow("udp", US, GATEWAY))
    (call,) = world.agent.calls
    with captured_logs() as logs:
        phone.send("REFER", headers="Refer-To: <sip:+15550123@example.com>")
        await world.settle()
        third.answer(200, sdp())
        await world.settle()
    (referred,) = [other for other in world.agent.calls if other is not call]
    assert lines_of(logs, call.id) == [
        "transfer by the other end accepted",
        "referred call begun",
        "transfer by the other end is over",
    ]
    assert entry_of(logs, "referred call begun")["referred_call_id"] == referred.id
    assert entry_of(logs, "transfer by the other end is over")["status"] == 200
    assert lines_of(logs, referred.id) == ["call dialled", "call answered"]
    assert "15550123" not in str(logs)


async def test_transfer_by_the_other_end_that_is_refused_has_its_status(world: World) -> None:
    phone = await world.answered()
    with captured_logs() as logs:
        phone.send("REFER", headers="Refer-To: <sip:+15550123@example.com>")
    assert entry_of(logs, "transfer by the other end refused")["status"] == 603
    assert "15550123" not in str(logs)


async def test_hold_and_resumption_have_a_line(world: World) -> None:
    phone = await world.answered()
    with captured_logs() as logs:
        phone.invite(sdp(direction="sendonly", version=2))
        phone.ack()
        phone.invite(sdp(version=3))
        phone.ack()
        await world.settle()
    assert lines_of(logs, world.call.id) == ["call held", "call resumed"]


async def test_digits_are_never_in_the_log(world: World) -> None:
    phone = await world.answered()
    with captured_logs() as logs:
        for digit in "7391":
            phone.send("INFO", digit, "Content-Type: application/dtmf")
        world.call.send_digits("8264")
        await world.settle()
    assert lines_of(logs, world.call.id) == ["digit heard"] * 4 + ["digits pressed"]
    assert {entry["log_level"] for entry in logs} == {"debug"}
    values = {value for entry in logs for name, value in entry.items() if name != "call_id"}
    assert values == {"digit heard", "digits pressed", "debug", 4}


async def test_call_that_is_held_and_referred_without_end_is_no_flood_of_log_lines(world: World) -> None:
    phone = await world.answered()
    with captured_logs() as logs:
        for version in range(2, 102):
            phone.invite(sdp(direction="sendonly" if version % 2 else "sendrecv", version=version))
            phone.ack()
            phone.send("REFER", headers="Refer-To: <sip:+15550123@example.com>")
        assert len(logs) == LINES_OF_EACH
        await world.advance(10)
        phone.send("REFER", headers="Refer-To: <sip:+15550123@example.com>")
    left_out = [entry["left_out"] for entry in logs if "left_out" in entry]
    assert left_out and left_out[0] > 100
