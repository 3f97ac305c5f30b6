"""LocalEngine on its real thread: few ticks each, and no wall times asserted beyond generous limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server.engine.client import EngineClient, Lease, SlotStatus, TickResult
from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.local import LocalEngine
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, FloatFrames, FrameStepper, SessionPrompt, StepOutput
from rtc_server.errors import EngineDraining, EngineFull, EngineUnavailable, UnknownVoice


class GatedStepper(EchoStepper):
    """An echo whose steps wait at a gate, once there is something to hear."""

    def __init__(self, slots: int = 1) -> None:
        super().__init__(slots, EngineOptions(slots=slots))
        self.gate = threading.Event()
        self.gate.set()
        self.in_step = threading.Event()

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        if pcm.any():
            self.in_step.set()
            self.gate.wait(timeout=20)
        return super().step(pcm, live)


def _echo(slots: int = 2) -> EchoStepper:
    return EchoStepper(slots, EngineOptions(slots=slots))


@asynccontextmanager
async def _running(factory: Callable[[], FrameStepper], **settings: float) -> AsyncIterator[LocalEngine]:
    engine = LocalEngine(factory, **settings)  # type: ignore[arg-type]
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


def _frames(*values: int) -> NDArray[np.int16]:
    return np.repeat(np.array(values, np.int16).reshape(-1, 1), FRAME_SAMPLES, axis=1)


async def _exchange(engine: LocalEngine, *leases: Lease, value: int = 1) -> TickResult:
    return await engine.exchange(leases, [True] * len(leases), 0, _frames(*[value] * len(leases)))


async def _go_live(engine: LocalEngine) -> Lease:
    lease = await engine.reserve(SessionPrompt())
    for _ in range(10):
        if (await _exchange(engine, lease)).outputs[0].status is SlotStatus.LIVE:
            return lease
    raise AssertionError("the slot does not go live")


async def _until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 10)


async def test_what_goes_in_comes_out_of_the_same_tick() -> None:
    async with _running(_echo) as engine:
        client: EngineClient = engine
        assert client.spec.name == "echo"
        lease = await _go_live(engine)
        for value in (5, -32768, 32767):
            result = await _exchange(engine, lease, value=value)
            output = result.outputs[0]
            assert output.status is SlotStatus.LIVE
            assert output.pcm is not None and output.pcm.dtype == np.int16
            assert (output.pcm == value).all()
            assert 0 < result.next_tick_in_s <= 0.160


async def test_two_conductors_exchange_in_the_same_tick() -> None:
    async with _running(_echo) as engine:
        one, other = await _go_live(engine), await _go_live(engine)
        for _ in range(3):
            first, second = await asyncio.gather(
                _exchange(engine, one, value=1), engine.exchange([other], [True], 0, _frames(2))
            )
            assert first.tick == second.tick
        assert first.outputs[0].pcm is not None and first.outputs[0].pcm[0] == 1
        assert second.outputs[0].pcm is not None and second.outputs[0].pcm[0] == 2


async def test_a_slow_constructor_does_not_block_the_event_loop() -> None:
    gate = threading.Event()

    def slow() -> FrameStepper:
        assert gate.wait(10)
        return _echo()

    engine = LocalEngine(slow)
    starting = asyncio.create_task(engine.start())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not starting.done()
    assert engine.capacity().ready is False and engine.capacity().total == 0
    with pytest.raises(EngineUnavailable, match="not started"):
        await engine.reserve(SessionPrompt())
    gate.set()
    await starting
    assert engine.capacity().total == 2 and engine.capacity().ready
    await engine.stop()


async def test_start_raises_what_the_constructor_raised() -> None:
    def broken() -> FrameStepper:
        raise MemoryError("no room for the weights")

    engine = LocalEngine(broken)
    with pytest.raises(MemoryError, match="no room"):
        await engine.start()
    with pytest.raises(EngineUnavailable):
        await engine.reserve(SessionPrompt())
    await engine.stop()


async def test_an_engine_starts_once() -> None:
    async with _running(_echo) as engine:
        with pytest.raises(RuntimeError, match="once"):
            await engine.start()


async def test_stop_while_it_is_still_loading_ends_the_start() -> None:
    gate = threading.Event()

    def slow() -> FrameStepper:
        assert gate.wait(10)
        return _echo()

    engine = LocalEngine(slow)
    starting = asyncio.create_task(engine.start())
    await asyncio.sleep(0)
    stopping = asyncio.create_task(engine.stop())
    await asyncio.sleep(0)
    gate.set()
    await stopping
    with pytest.raises(EngineUnavailable, match="while it was starting"):
        await starting


async def test_stop_ends_the_thread_and_a_waiting_exchange() -> None:
    stepper = GatedStepper()
    engine = LocalEngine(lambda: stepper)
    await engine.start()
    lease = await _go_live(engine)
    stepper.in_step.clear()
    stepper.gate.clear()
    waiting = [asyncio.create_task(_exchange(engine, lease))]
    await _until(stepper.in_step)
    waiting.append(asyncio.create_task(_exchange(engine, lease)))
    await asyncio.sleep(0)
    stopping = asyncio.create_task(engine.stop())
    await asyncio.sleep(0)
    stepper.gate.set()
    await stopping
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert not [thread for thread in threading.enumerate() if thread.name == "engine-local"]
    assert isinstance(results[0], TickResult)  # its step was in flight, and was waited for
    assert isinstance(results[1], EngineUnavailable)
    with pytest.raises(EngineUnavailable, match="stopped"):
        await _exchange(engine, lease)
    await engine.release(lease)
    await engine.stop()
    assert engine.capacity().ready is False


async def test_an_exchange_waits_longer_than_its_deadline_while_the_engine_lives() -> None:
    stepper = GatedStepper()
    async with _running(lambda: stepper, deadline_s=0.01) as engine:
        lease = await _go_live(engine)
        stepper.gate.clear()
        waiting = asyncio.create_task(_exchange(engine, lease))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        stepper.gate.set()
        assert (await waiting).outputs[0].status is SlotStatus.LIVE


async def test_a_stepper_that_is_stuck_makes_the_engine_unavailable() -> None:
    stepper = GatedStepper()
    async with _running(lambda: stepper, deadline_s=0.01, lost_after_s=0.3) as engine:
        lease = await _go_live(engine)
        stepper.gate.clear()
        with pytest.raises(EngineUnavailable, match="silent"):
            await _exchange(engine, lease)
        with pytest.raises(EngineUnavailable, match="silent"):
            await engine.reserve(SessionPrompt())
        stepper.gate.set()


async def test_a_cancelled_exchange_corrupts_nothing() -> None:
    stepper = GatedStepper()
    async with _running(lambda: stepper) as engine:
        lease = await _go_live(engine)
        for value in range(10, 15):
            stepper.in_step.clear()
            stepper.gate.clear()
            cancelled = asyncio.create_task(_exchange(engine, lease, value=1))
            if value % 2:
                await _until(stepper.in_step)  # in the middle of its step
            else:
                await asyncio.sleep(0)  # before it
            cancelled.cancel()
            stepper.gate.set()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            output = (await _exchange(engine, lease, value=value)).outputs[0]
            assert output.pcm is not None and output.pcm[0] == value


async def test_a_release_during_a_step_frees_the_slot_after_it_and_the_next_caller_waits_for_that() -> None:
    stepper = GatedStepper(slots=1)
    async with _running(lambda: stepper) as engine:
        lease = await _go_live(engine)
        stepper.in_step.clear()
        stepper.gate.clear()
        waiting = asyncio.create_task(_exchange(engine, lease))
        await _until(stepper.in_step)
        await engine.release(lease)
        reserving = asyncio.create_task(engine.reserve(SessionPrompt()))
        await asyncio.sleep(0.02)
        assert not reserving.done()
        stepper.gate.set()
        new = await reserving
        assert new.slot == lease.slot and new.token != lease.token
        assert (await waiting).outputs[0].status is SlotStatus.REVOKED


async def test_a_full_engine_refuses_at_once() -> None:
    async with _running(lambda: _echo(1)) as engine:
        await _go_live(engine)
        reserving = engine.reserve(SessionPrompt())
        with pytest.raises(EngineFull):
            reserving.send(None)  # without waiting for anything


async def test_draining_refuses_new_callers_and_keeps_the_others() -> None:
    async with _running(_echo) as engine:
        lease = await _go_live(engine)
        engine.drain()
        with pytest.raises(EngineDraining):
            await engine.reserve(SessionPrompt())
        assert (await _exchange(engine, lease)).outputs[0].status is SlotStatus.LIVE


async def test_an_unknown_voice_is_refused() -> None:
    async with _running(_echo) as engine:
        with pytest.raises(UnknownVoice):
            await engine.reserve(SessionPrompt(voice="nobody"))
        assert engine.capacity().in_use == 0


async def test_an_engine_whose_thread_dies_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _running(_echo) as engine:
        lease = await _go_live(engine)
        assert engine._loop is not None
        monkeypatch.setattr(engine._loop, "poll", lambda: 1 / 0)
        with pytest.raises(EngineUnavailable):
            for _ in range(3):
                await _exchange(engine, lease)
