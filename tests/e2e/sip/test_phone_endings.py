"""However a call ends, nothing of it is left behind."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from rtc_server.transports.sip.call.call import Call
from tests.e2e.sip.house import House, brisk_house
from tests.e2e.sip.livephone import LivePhone
from tests.e2e.sip.phoneline import ONE_CALL, RINGS
from tests.logs import assert_no_errors, captured_logs
from tests.transports.sip.call.phone import sdp

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(300, method="signal")]

ROUNDS = 30 if os.environ.get("RTC_SOAK") else 3
AT_ONCE = 12
CALLEE = "+15550123"


Ending = Callable[[House], Awaitable[None]]


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with brisk_house(tmp_path) as house:
        yield house


async def test_many_calls_that_end_in_every_way_leave_nothing_behind(house: House) -> None:
    with captured_logs() as logs:
        await many_calls_end_in_every_way(house)
    assert {"call arrives", "call refused", "call ended", "session closed"} <= {entry["event"] for entry in logs}
    assert_no_errors(logs)


async def many_calls_end_in_every_way(house: House) -> None:
    ends: Counter[str] = Counter()
    listening = asyncio.create_task(count_ends(house, ends))
    await answered_and_hung_up(house)
    await house.wait_nothing_left()
    process, tasks = psutil.Process(), len(asyncio.all_tasks())
    files = process.num_fds()

    room = asyncio.Semaphore(AT_ONCE)

    async def end(ending: Ending) -> None:
        async with room:
            await ending(house)

    async with asyncio.TaskGroup() as calling:
        calling.create_task(calls_of_ours(house, ROUNDS))
        for _ in range(ROUNDS):
            for ending in ENDINGS:
                calling.create_task(end(ending))
    await house.wait_nothing_left()
    assert process.num_fds() <= files
    assert len(asyncio.all_tasks()) <= tasks
    listening.cancel()
    expected = Counter({reason: ROUNDS * count for reason, count in REASONS.items()})
    expected += Counter(peer_closed=1, hangup=1)
    assert ends == expected


async def count_ends(house: House, ends: Counter[str]) -> None:
    async for event in house.agent.calls.feed.subscribe():
        assert event["type"] != "dropped"
        if event["type"] == "ended":
            ends[event["reason"]] += 1


# ---- calls of others -------------------------------------------------------------------------------------------------


async def answered_and_hung_up(house: House) -> None:
    async with house.line.phone() as phone:
        await phone.call()
        await asyncio.sleep(0.1)
        await phone.hang_up()


async def hung_up_by_us(house: House) -> None:
    async with house.line.phone() as phone:
        await phone.call()
        await acknowledged(house, phone)
        house.call_of(phone).hangup()
        await phone.until("BYE")


async def hung_up_by_us_unanswered(house: House) -> None:
    """Nobody is there to answer the BYE."""
    async with house.line.phone() as phone:
        phone.mute = True
        await phone.call()
        await acknowledged(house, phone)
        house.call_of(phone).hangup()
        await phone.until("BYE")


async def session_ended(house: House) -> None:
    async with house.line.phone() as phone:
        await phone.call()
        await acknowledged(house, phone)
        session_id = house.call_of(phone).session_id
        assert session_id is not None
        house.server.registry.get(session_id).close("closed_by_test")
        await phone.until("BYE")


async def never_acknowledged(house: House) -> None:
    async with house.line.phone() as phone:
        phone.invite(phone.offer)
        await phone.until("200")
        await phone.until("BYE")
        assert phone.count("200") > 3


async def hung_up_by_us_before_the_ack(house: House) -> None:
    async with house.line.phone() as phone:
        phone.invite(phone.offer)
        await phone.until("200")
        house.call_of(phone).hangup()
        assert "BYE" not in phone.new()
        phone.ack()
        await phone.until("BYE")


async def cancelled_while_it_rings(house: House) -> None:
    async with house.line.phone(RINGS) as phone:
        phone.invite(phone.offer)
        await phone.until("180")
        phone.cancel()
        await phone.until("487")
        phone.ack_refusal()


async def cancelled_at_once(house: House) -> None:
    """Both are there before the server reads the first. Of its refusal there is no ACK."""
    async with house.line.phone(RINGS) as phone:
        phone.invite(phone.offer)
        phone.cancel()
        await phone.until("487")


async def left_while_it_rings(house: House) -> None:
    """BYE in an early dialog (RFC 3261 section 15)."""
    async with house.line.phone(RINGS) as phone:
        phone.invite(phone.offer)
        await phone.until("180")
        phone.send("BYE")
        await phone.until("487")
        phone.cseq -= 1
        phone.ack_refusal()


async def hung_up_by_us_while_it_rings(house: House) -> None:
    async with house.line.phone(RINGS) as phone:
        phone.invite(phone.offer)
        await phone.until("180")
        house.call_of(phone).hangup()
        await phone.until("603")
        phone.ack_refusal()


async def unknown_number(house: House) -> None:
    async with house.line.phone("999") as phone:
        phone.invite(phone.offer)
        await phone.until("404")


async def no_codec_in_common(house: House) -> None:
    async with house.line.phone() as phone:
        phone.invite(sdp("18 G729/8000"))
        await phone.until("488")
        phone.ack_refusal()


async def two_calls_to_a_number_for_one(house: House) -> None:
    async with house.line.phone(ONE_CALL) as first, house.line.phone(ONE_CALL) as second, house.one_call:
        await first.call()
        second.invite(second.offer)
        await second.until("486")
        second.ack_refusal()
        await first.hang_up()


async def late_offer_never_answered(house: House) -> None:
    async with house.line.phone() as phone:
        phone.invite("")
        await phone.until("200")
        phone.ack()
        await phone.until("BYE")


async def unknown_extension(house: House) -> None:
    async with house.line.phone() as phone:
        phone.invite(phone.offer, "Require: telepathy")
        await phone.until("420")
        phone.ack_refusal()


async def of_no_call(house: House) -> None:
    async with house.line.phone() as phone:
        phone.our_tag = "never-was"
        for method in ("BYE", "UPDATE", "INVITE"):
            phone.send(method)
            await phone.until("481")


async def acknowledged(house: House, phone: LivePhone) -> None:
    """The server has read the ACK."""
    phone.send("OPTIONS")
    await phone.until("200")


# ---- calls of ours ---------------------------------------------------------------------------------------------------


async def calls_of_ours(house: House, rounds: int) -> None:
    """To one phone, one after the other."""
    async with LivePhone(house.line.address, CALLEE, port=house.line.callee_port) as phone:
        for _ in range(rounds):
            for answer in (busy, hung_up_by_callee, hung_up_by_caller, given_up, given_up_early, bad_answer):
                phone.cseq, phone.our_tag, phone.mute = 100, None, False
                call = await house.agent.dial(CALLEE)
                known = {m.headers.get("Call-ID") for m in phone.received}
                while phone.received == [] or phone.received[-1].headers.get("Call-ID") in known:
                    await phone.until("INVITE")
                await answer(phone, call)
        call = await house.agent.dial(CALLEE)
        await asyncio.sleep(0.1)
        call.hangup()  # nothing has come back, and nothing will


async def busy(phone: LivePhone, call: Call) -> None:
    phone.answer(486)
    await phone.until("ACK")


async def hung_up_by_callee(phone: LivePhone, call: Call) -> None:
    phone.answer(180)
    phone.answer(200, phone.offer)
    await phone.until("ACK")
    phone.join(phone.last_request("INVITE"))
    phone.send("BYE")
    await phone.until("200")


async def hung_up_by_caller(phone: LivePhone, call: Call) -> None:
    phone.answer(200, phone.offer)
    await phone.until("ACK")
    call.hangup()
    await phone.until("BYE")


async def given_up(phone: LivePhone, call: Call) -> None:
    phone.answer(180)
    await asyncio.sleep(0.1)
    call.hangup()
    await phone.until("CANCEL")
    phone.answer(200, to="CANCEL")
    phone.answer(487)
    await phone.until("ACK")


async def given_up_early(phone: LivePhone, call: Call) -> None:
    """Before anything has come back: the CANCEL has to wait until something does (RFC 3261 section 9.1)."""
    call.hangup()
    await asyncio.sleep(0.02)
    phone.answer(180)
    await phone.until("CANCEL")
    phone.answer(200, to="CANCEL")
    phone.answer(487)
    await phone.until("ACK")


async def bad_answer(phone: LivePhone, call: Call) -> None:
    phone.answer(200, sdp("18 G729/8000"))
    await phone.until("BYE")


ENDINGS: tuple[Ending, ...] = (
    answered_and_hung_up,
    hung_up_by_us,
    hung_up_by_us_unanswered,
    session_ended,
    never_acknowledged,
    hung_up_by_us_before_the_ack,
    cancelled_while_it_rings,
    cancelled_at_once,
    left_while_it_rings,
    hung_up_by_us_while_it_rings,
    unknown_number,
    no_codec_in_common,
    two_calls_to_a_number_for_one,
    late_offer_never_answered,
    unknown_extension,
    of_no_call,
)
REASONS = Counter(
    hangup=7,
    closed_by_test=1,
    ack_lost=1,
    cancelled=3,
    media_refused=3,
    busy=1,
    peer_closed=3,
)
"""Of one round of all."""
