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
from rtc_server.session.leg import FloatFrame
from rtc_server.session.session import State
from tests.session.conftest import House
from tests.session.fakes import FakeClock, FakeEngine, FakeLeg


class SlowLeg(FakeLeg):
    """Each frame takes it `work_s` of the clock, either way."""

    def __init__(self, clock: FakeClock, work_s: float = 0.001) -> None:
        super().__init__(clock)
        self.work_s = work_s
        self.taken = self.given = 0

    def take(self, now: float) -> FloatFrame:
        self.taken += 1
        self.clock.now += self.work_s
        return super().take(now)

    def write(self, now: float, pcm: FloatFrame) -> int:
        self.given += 1
        self.clock.now += self.work_s
        return super().write(now, pcm)


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


async def test_work_on_many_sessions_lets_others_run_meanwhile() -> None:
    """Packets are due while frames are gathered and delivered."""
    house = House(engine=FakeEngine(slots=12))
    legs = [SlowLeg(house.clock) for _ in range(12)]
    for leg in legs:
        await house.call(leg)
    await house.tick(2)
    seen: list[tuple[int, int]] = []

    async def others() -> None:
        while True:
            seen.append((sum(leg.taken for leg in legs), sum(leg.given for leg in legs)))
            await asyncio.sleep(0)

    for leg in legs:
        leg.taken = leg.given = 0
    task = asyncio.create_task(others())
    await house.tick(1)
    task.cancel()
    assert {(2, 0), (10, 0), (12, 2), (12, 10)} <= set(seen)


async def test_gathering_that_is_late_takes_no_more_breaks() -> None:
    house = House(engine=FakeEngine(slots=12))
    legs = [SlowLeg(house.clock, work_s=0.004) for _ in range(12)]
    for leg in legs:
        await house.call(leg)
    await house.tick(2)
    seen: set[int] = set()

    async def others() -> None:
        while True:
            seen.add(sum(leg.taken for leg in legs))
            await asyncio.sleep(0)

    for leg in legs:
        leg.taken = 0
    task = asyncio.create_task(others())
    await house.tick(1)
    task.cancel()
    assert 4 in seen and not {6, 8, 10} & seen


async def test_session_that_ends_in_a_break_gives_and_takes_nothing_more() -> None:
    house = House(engine=FakeEngine(slots=3))
    legs = [SlowLeg(house.clock) for _ in range(3)]
    sessions = [(await house.call(leg))[0] for leg in legs]
    await house.tick(2)
    for leg in legs:
        leg.taken = leg.given = 0

    async def hang_up() -> None:
        sessions[2].close("hangup")

    task = asyncio.create_task(hang_up())
    await house.tick(1)
    await task
    assert [(leg.taken, leg.given) for leg in legs] == [(1, 1), (1, 1), (0, 0)]
    await house.tick(1)
    assert [leg.taken for leg in legs] == [2, 2, 0]


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
