from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import numpy as np
import pytest

from rtc_server.engine.client import TickResult
from rtc_server.engine.stepper import FRAME_SAMPLES
from rtc_server.errors import EngineUnavailable
from rtc_server.session.conductor import DeliveryDelay
from rtc_server.session.session import State
from tests.session.conftest import House
from tests.session.fakes import FakeEngine


async def test_one_exchange_a_tick_for_all_sessions() -> None:
    house = House(engine=FakeEngine(slots=8))
    for _ in range(8):
        await house.call()
    await house.tick(5)
    assert len(house.engine.exchanges) == 5
    assert all(len(leases) == 8 for leases, _, _ in house.engine.exchanges)


async def test_frames_lie_in_the_row_of_their_lease() -> None:
    house = House(engine=FakeEngine(slots=3))
    for level in (0.1, 0.2, 0.3):
        _, leg = await house.live_call()
        leg.voice = np.full(FRAME_SAMPLES, level, np.float32)
    await house.tick(1)
    _, live, pcm = house.engine.exchanges[-1]
    assert live == [True] * 3
    assert [int(row[0]) for row in pcm] == [3277, 6554, 9830]


async def test_packets_are_aligned_to_the_output_of_a_tick(house: House) -> None:
    await house.live_call()
    await house.tick(3)
    assert len(house.pacer.aligned) == 5


async def test_engine_that_dies_ends_every_session_with_a_reason(house: House) -> None:
    session, leg = await house.live_call()

    lost = asyncio.Event()

    async def dead(*_: object) -> None:
        lost.set()
        raise EngineUnavailable("dead")

    house.engine.exchange = dead  # type: ignore[assignment,method-assign]
    task = asyncio.create_task(house.conductor.run())
    await lost.wait()
    await asyncio.sleep(0)
    assert session.state is State.CLOSED
    await session.wait_closed()
    assert leg.closed == ["engine_lost"]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_idle_conductor_asks_nothing_of_the_engine(house: House) -> None:
    task = asyncio.create_task(house.conductor.run())
    for _ in range(10):
        await asyncio.sleep(0)
    assert house.engine.exchanges == []
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def test_delivery_delay_ignores_a_rare_slow_tick() -> None:
    delay = DeliveryDelay(guard_s=0.0)
    for k in range(64):
        delay.observe(0.050 if k % 20 == 0 else 0.002)
    assert delay.usual_s == pytest.approx(0.002)


async def test_leg_that_cannot_give_its_frame_ends_only_its_own_session() -> None:
    house = House(engine=FakeEngine(slots=2))
    broken, broken_leg = await house.live_call()
    healthy, healthy_leg = await house.live_call()

    def fail(now: float) -> np.ndarray:
        raise RuntimeError("broken leg")

    broken_leg.take = fail  # type: ignore[method-assign]
    await house.tick(5, alive=healthy_leg)
    await broken.wait_closed()
    assert broken_leg.closed == ["internal_error"]
    assert healthy.state is State.LIVE


async def test_ticks_without_a_live_call_say_nothing_about_the_delay(house: House) -> None:
    """They are answered at the edge, tens of milliseconds later, while callers connect."""
    _, leg = await house.call(connected=False)
    answer_at_once = house.engine.exchange

    async def answer_at_the_edge(*arguments: Any) -> TickResult:
        house.clock.now += 0.0 if arguments[1][0] else 0.040
        return await answer_at_once(*arguments)

    house.engine.exchange = answer_at_the_edge  # type: ignore[method-assign]
    await house.tick(5)
    leg.connect()
    await house.tick(5)
    assert all(offset_s < 0.010 for _, offset_s in house.pacer.aligned)
