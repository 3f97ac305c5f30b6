"""A virtual world for the engine loop: a clock that only moves when told, and a stepper that takes time on it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.client import Lease, SlotOutput, SlotStatus, TickResult
from rtc_server.engine.loop import EngineLoop
from rtc_server.engine.stepper import FRAME_SAMPLES, FloatFrames, FrameSpec, SessionPrompt, StepOutput
from rtc_server.engine.tick import Exchange


class VirtualClock:
    """Seconds that pass only in `advance_to`; what was planned with `at` happens on the way, as on other threads."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def __call__(self) -> float:
        return self.now

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._planned, (when, next(self._order), action))

    @property
    def next_planned_s(self) -> float:
        return self._planned[0][0] if self._planned else float("inf")

    def advance_to(self, when: float) -> None:
        while self._planned and self._planned[0][0] <= when:
            planned_s, _, action = heapq.heappop(self._planned)
            self.now = max(self.now, planned_s)
            action()
        self.now = max(self.now, when)

    def advance(self, seconds: float) -> None:
        self.advance_to(self.now + seconds)


class ScriptedStepper:
    """Echoes, takes virtual time, breaks on demand, and insists that it is called in a legal order."""

    def __init__(self, clock: VirtualClock, slots: int = 2, *, step_s: float = 0.010, prefill_s: float = 0.0) -> None:
        self.spec = FrameSpec(name="scripted", summary="For tests.", voices=("default", "other"))
        self.slots = slots
        self.clock = clock
        self.step_s: float | Callable[[], float] = step_s
        self.open_s = 0.0
        self.prefill_s = prefill_s
        """Work that each prompt needs."""
        self.prefill_overrun_s: Callable[[], float] = lambda: 0.0
        """By how much a call to `prefill` takes longer than its budget."""
        self.raise_in: set[str] = set()
        """Names of methods that raise."""
        self.fail_next: set[int] = set()
        self.say: dict[int, list[str]] = {}
        """Words per slot, one a step."""
        self.poison: set[int] = set()
        """Slots whose audio is not finite."""
        self.steps: list[tuple[float, FloatFrames, NDArray[np.bool_]]] = []
        """(began, input, live)"""
        self.prefills: list[tuple[float, int, float]] = []
        """(began, slot, budget)"""
        self.closed: list[int] = []
        self._left_s: dict[int, float] = {}
        self._ready: set[int] = set()
        self._open: set[int] = set()
        self._busy = False

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        assert not self._busy and slot not in self._open, f"open({slot}) out of order"
        self._open.add(slot)
        self._left_s[slot] = self.prefill_s
        self._take(self.open_s)
        self._maybe_raise("open")

    def prefill(self, slot: int, budget_s: float) -> bool:
        assert not self._busy and slot in self._open and slot not in self._ready, f"prefill({slot}) out of order"
        assert budget_s > 0
        self.prefills.append((self.clock.now, slot, budget_s))
        self._maybe_raise("prefill")
        took_s = min(budget_s, self._left_s[slot])
        self._left_s[slot] -= took_s
        self._take(took_s + self.prefill_overrun_s())
        if self._left_s[slot] <= 1e-9:
            self._ready.add(slot)
            return True
        return False

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        assert not self._busy and live.any(), "step out of order"
        assert set(np.flatnonzero(live)) <= self._ready, "step of a slot that is not prefilled"
        self.steps.append((self.clock.now, pcm.copy(), live.copy()))
        self._take(self.step_s() if callable(self.step_s) else self.step_s)
        self._maybe_raise("step")
        out = pcm.copy()
        for slot in self.poison:
            out[slot] = np.nan
        failed, self.fail_next = frozenset(self.fail_next), set()
        text = [self.say[k].pop(0) if live[k] and self.say.get(k) else None for k in range(self.slots)]
        return StepOutput(out, text, [()] * self.slots, failed)

    def close(self, slot: int) -> None:
        assert not self._busy and slot in self._open, f"close({slot}) out of order"
        self._open.discard(slot)
        self._ready.discard(slot)
        self.closed.append(slot)
        self._maybe_raise("close")

    @property
    def open_slots(self) -> frozenset[int]:
        return frozenset(self._open)

    def _take(self, seconds: float) -> None:
        self._busy = True
        self.clock.advance(seconds)
        self._busy = False

    def _maybe_raise(self, method: str) -> None:
        if method in self.raise_in:
            raise RuntimeError(f"{method} was told to raise")


class World:
    """One loop on a virtual clock. `run_until` turns it as its thread would."""

    def __init__(self, slots: int = 2, **stepper: float) -> None:
        self.clock = VirtualClock()
        self.origin_s = self.clock.now
        self.stepper = ScriptedStepper(self.clock, slots, **stepper)
        self.loop = EngineLoop(self.stepper, clock=self.clock)
        self.answered: dict[Exchange, float] = {}
        """Exchanges and when they were answered."""
        self.on_answer: dict[Exchange, Callable[[TickResult], None]] = {}

    def edge_s(self, number: int) -> float:
        return self.origin_s + number * 0.080

    def run_until(self, when: float) -> None:
        while True:
            for exchange in self.loop.poll().done:
                self.answered[exchange] = self.clock.now
                assert exchange.result is not None
                if (then := self.on_answer.pop(exchange, None)) is not None:
                    then(exchange.result)
            wake_s = self.loop.wake_s()
            if wake_s > self.clock.now:
                if min(wake_s, self.clock.next_planned_s) > when:
                    break
                self.clock.advance_to(min(wake_s, self.clock.next_planned_s))
            elif self.clock.now > when:
                break
        self.clock.advance_to(when)

    def run_ticks(self, count: int) -> None:
        """Until just after the `count`th edge from now."""
        done = int((self.clock.now - self.origin_s) / 0.080 + 1e-6)
        self.run_until(self.edge_s(done + count) + 0.0001)

    def reserve(self) -> Lease:
        return self.loop.reserve(SessionPrompt())

    def submit(self, *leases: Lease, live: Sequence[int] | None = None, value: int = 1000) -> Exchange:
        pcm = np.full((len(leases), FRAME_SAMPLES), value, np.int16)
        return self.loop.submit(leases, [True] * len(leases) if live is None else live, 0, pcm)

    def exchange(self, *leases: Lease, live: Sequence[int] | None = None, value: int = 1000) -> TickResult:
        """Submit, and run until the answer."""
        exchange = self.submit(*leases, live=live, value=value)
        for _ in range(200):
            if exchange.result is not None:
                return exchange.result
            self.run_until(self.clock.now + 0.010)
        raise AssertionError("no answer within two seconds")

    def go_live(self, count: int = 1) -> list[Lease]:
        """Leases whose slots were stepped once."""
        leases = [self.reserve() for _ in range(count)]
        for _ in range(100):
            if all(output.status is SlotStatus.LIVE for output in self.exchange(*leases).outputs):
                return leases
        raise AssertionError("the slots do not go live")


class Conductor:
    """A client as the real one: sends its frames a margin before the edge that the last answer told."""

    def __init__(self, world: World, leases: Sequence[Lease], margin_s: Callable[[], float] = lambda: 0.005) -> None:
        self.world = world
        self.leases = tuple(leases)
        self.margin_s = margin_s
        self.results: list[TickResult] = []
        self.stopped = False
        self._send()

    def outputs(self, index: int = 0) -> list[SlotOutput]:
        return [result.outputs[index] for result in self.results]

    def _send(self) -> None:
        if not self.stopped:
            self.world.on_answer[self.world.submit(*self.leases)] = self._answered

    def _answered(self, result: TickResult) -> None:
        self.results.append(result)
        self.world.clock.at(self.world.clock.now + max(0.0, result.next_tick_in_s - self.margin_s()), self._send)
