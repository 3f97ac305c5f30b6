from __future__ import annotations

import asyncio

import pytest

from rtc_server import events
from rtc_server.errors import SessionNotFound
from tests.session.conftest import House


async def test_unknown_session_is_not_found(house: House) -> None:
    with pytest.raises(SessionNotFound):
        house.registry.get("nobody")


async def test_ended_session_is_not_found(house: House) -> None:
    session, _ = await house.call()
    session.close("test")
    await session.wait_closed()
    with pytest.raises(SessionNotFound):
        house.registry.get(session.id)


async def test_drain_announces_then_ends_every_session(house: House) -> None:
    calls = [await house.live_call() for _ in range(2)]
    await house.registry.drain(0.01, "server_stopping")
    assert len(house.registry) == 0
    for _, leg in calls:
        assert isinstance(leg.of(events.SessionEnding)[0], events.SessionEnding)
        assert leg.closed == ["server_stopping"]


async def test_conversations_that_are_cut_off_are_counted_and_no_others(house: House) -> None:
    sessions = [(await house.live_call())[0] for _ in range(2)]
    sessions[0].close("client_closed")
    await house.registry.drain(0.01, "server_stopping")
    await house.registry.close_all("server_stopping")
    assert house.registry.cut_off == 1


async def test_a_call_that_connects_during_a_drain_is_told_after_its_opening(house: House) -> None:
    _, leg = await house.call(connected=False)
    drain = asyncio.create_task(house.registry.drain(3600, "server_stopping"))
    await asyncio.sleep(0)
    assert leg.events == []
    leg.connect()
    assert leg.types == ["session.created", "session.prefill", "session.ending"]
    drain.cancel()


async def test_drain_ends_early_when_the_last_call_ends(house: House) -> None:
    session, _ = await house.live_call()
    drain = asyncio.create_task(house.registry.drain(3600, "server_stopping"))
    await asyncio.sleep(0)
    session.close("client_closed")
    await asyncio.wait_for(drain, 5)
