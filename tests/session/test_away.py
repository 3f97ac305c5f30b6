"""The connection is closed, and the conversation waits."""

from __future__ import annotations

import pytest

from rtc_server.engine.client import SlotStatus
from rtc_server.errors import SessionNotFound
from rtc_server.session.liveness import LivenessRules
from rtc_server.session.session import State
from tests.session.conftest import House
from tests.session.fakes import FakeLeg

# ---- the connection is closed ----------------------------------------------------------------------------------------


async def test_a_closed_connection_keeps_the_slot_and_no_engine_time_passes(house: House) -> None:
    session, leg = await house.live_call()
    before = house.stepped_frames
    leg.end()
    await house.tick(100)
    assert session.state is State.DEGRADED
    assert house.stepped_frames == before == session.frames
    assert all(leases == [session.lease] for leases, _, _ in house.engine.exchanges), "renewed in every tick"


async def test_nobody_came_back_in_time(house: House) -> None:
    session, leg = await house.live_call()
    leg.end()
    await house.tick(124)
    assert session.state is State.DEGRADED
    await house.tick(3)
    assert session.state is State.CLOSED
    await session.wait_closed()
    assert house.engine.leases == []
    assert leg.closed == [], "it has closed itself"


@pytest.mark.parametrize("connected", [False, True], ids=["connecting", "prefill"])
async def test_a_connection_that_is_closed_before_the_agent_is_live_frees_the_slot_at_once(
    house: House, connected: bool
) -> None:
    house.engine.ready_slots = False
    session, leg = await house.call(connected=connected)
    session.give_token()
    await house.tick(2)
    leg.end()
    assert session.state is State.CLOSED
    await session.wait_closed()
    assert house.engine.leases == []


async def test_a_caller_without_a_token_cannot_come_back_and_is_not_waited_for(house: House) -> None:
    leg = FakeLeg(house.clock)
    leg.has_events = False
    session, _ = await house.live_call(leg)
    leg.end()
    assert session.state is State.CLOSED


async def test_a_caller_without_events_who_got_the_token_otherwise_is_waited_for(house: House) -> None:
    leg = FakeLeg(house.clock)
    leg.has_events = False
    session, _ = await house.live_call(leg)
    session.give_token()
    leg.end()


async def test_a_caller_who_adds_the_event_channel_later_is_told_what_every_caller_is_told_first(house: House) -> None:
    leg = FakeLeg(house.clock)
    leg.has_events = False
    session, _ = await house.live_call(leg)
    before = len(leg.events)
    leg.has_events = True
    house.engine.text = " word"
    await house.tick(2)
    told = leg.events[before:]
    assert [event.type for event in told[:2]] == ["session.created", "response.delta"]
    assert leg.types.count("session.created") == 1
    leg.end()
    assert session.state is State.DEGRADED, "it has the token"


async def test_nobody_is_waited_for_where_the_server_is_told_so() -> None:
    house = House(rules=LivenessRules(setup_s=15, resume_s=0))
    session, leg = await house.live_call()
    leg.end()
    assert session.state is State.CLOSED


@pytest.mark.parametrize("way", ["close", "message"])
async def test_a_goodbye_ends_the_call_at_once(house: House, way: str) -> None:
    session, leg = await house.live_call()
    if way == "close":
        session.close("client_closed")  # DELETE
    else:
        leg.say('{"type":"close"}')
    await session.wait_closed()
    assert leg.closed == ["client_closed"]
    assert house.engine.leases == []


async def test_the_frame_that_was_in_the_engine_when_the_caller_left_has_happened(house: House) -> None:
    session, leg = await house.live_call()
    house.engine.text = " word"
    step = house.engine.exchange

    async def leave_meanwhile(*arguments: object) -> object:
        result = await step(*arguments)  # type: ignore[arg-type]
        leg.end()
        return result

    house.engine.exchange = leave_meanwhile  # type: ignore[method-assign,assignment]
    await house.tick()
    assert session.state is State.DEGRADED
    assert session.frames == house.stepped_frames
    house.engine.exchange = step  # type: ignore[method-assign]
    new = house.add_leg(session)
    assert new.words == [" word"]


# ---- the end, meanwhile ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "reason"), [(SlotStatus.FAILED, "engine_failed"), (SlotStatus.REVOKED, "engine_lost")]
)
async def test_an_engine_that_dies_while_the_caller_is_away_ends_the_conversation(
    house: House, status: SlotStatus, reason: str
) -> None:
    session, old = await house.live_call()
    old.end()
    new = house.add_leg(session, connected=False)
    house.engine.status = status
    await house.tick()
    await session.wait_closed()
    assert session.state is State.CLOSED
    assert new.closed == [reason]
    new.connect()
    assert new.events == []


async def test_a_drain_ends_a_conversation_whose_caller_is_away(house: House) -> None:
    session, leg = await house.live_call()
    leg.end()
    await house.registry.drain(0.01, "server_stopping")
    assert session.state is State.CLOSED
    assert house.engine.leases == []


async def test_a_leg_that_is_made_for_a_session_that_ended_meanwhile_is_closed(house: House) -> None:
    session, _ = await house.live_call()
    handler = session.expect_leg()
    session.close("test")
    leg = FakeLeg(house.clock)
    with pytest.raises(SessionNotFound):
        handler.attach(leg)
    await session.wait_closed()
    assert leg.closed == ["session_ended"]
