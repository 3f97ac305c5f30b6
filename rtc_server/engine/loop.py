"""The engine's clock, and the only owner of a stepper.

Everything that touches the stepper happens in `poll`, on one thread. Everybody else calls `reserve`, `submit`,
`release` and the like from any thread: they change the slot table under a lock that is never held during a call into
the stepper, so they never wait for a step.

A turn of `poll` does the most urgent of these: the tick, if it is due or every live slot has its frame; closing slots;
opening slots; prefill, in the time that is left before the next edge.

What breaks, and who notices: a slot that the stepper reports as failed, whose audio is not finite, or whose `open` or
`prefill` raises, fails alone. A `step` that raises is answered with one frame of silence, since its cause may be gone
80 ms later; raises the next one too, then every slot that was live in it fails. The loop itself goes on.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rtc_server import metrics
from rtc_server.engine.client import Capacity, Lease, Live, SlotOutput, SlotStatus, TickResult
from rtc_server.engine.edges import TickEdges
from rtc_server.engine.slots import Phase, Slot, SlotTable
from rtc_server.engine.spare import SpareTime
from rtc_server.engine.stepper import (
    FRAME_SAMPLES,
    FrameStepper,
    SessionPrompt,
    SupportsProgress,
    SupportsPromptCheck,
    SupportsShutdown,
)
from rtc_server.engine.tick import Exchange, Tick, Turn, broken_slots, check_output
from rtc_server.engine.voicesample import voice_sample
from rtc_server.errors import EngineDraining, EngineError, EngineUnavailable
from rtc_server.log import get_logger
from rtc_server.media.pcm import to_float, to_int16

log = get_logger(__name__)

STALE_HEARTBEAT_S = 1.0
"""An engine whose last turn is older is not ready."""
FATAL_STEP_FAILURES = 2
"""So many steps in a row that raise end the calls that were live in them, and the engine's readiness."""
RETRY_AFTER_FAILURE_S = 10.0
"""So long after its last failed step a broken engine is given another chance."""
SHED_LOG_INTERVAL_S = 10.0


class EngineLoop:
    """Slots, leases, prefill and the tick of one stepper.

    Args:
        stepper: owned from now on; only `poll` calls it.
        engine_id: goes into the leases.
        clock: seconds, monotone. Virtual in tests.
    """

    def __init__(
        self, stepper: FrameStepper, *, engine_id: str = "local", clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not stepper.spec.voices:
            raise EngineError(f"engine {stepper.spec.name} has no voice", hint="name one in FrameSpec.voices")
        self.spec = stepper.spec
        self._stepper = stepper
        self._clock = clock
        self._table = SlotTable(stepper.slots, engine_id, incarnation=secrets.token_hex(8))
        self._edges = TickEdges(clock())
        self._spare = SpareTime()
        self._waiting: list[Exchange] = []
        self._inbox = np.zeros((stepper.slots, FRAME_SAMPLES), np.int16)
        self._input = np.zeros((stepper.slots, FRAME_SAMPLES), np.float32)
        self._draining = False
        self._stopping = False
        self._heartbeat_s = clock()
        self._step_failures = 0
        self._step_failed_s = 0.0
        self._shed_logged_s = -SHED_LOG_INTERVAL_S
        self._changed = threading.Condition(threading.Lock())

    # ---- from any thread; never waits for the stepper ----------------------------------------------------------------

    def reserve(self, prompt: SessionPrompt) -> Lease:
        """Take a free slot; the next turn opens it and begins its prefill.

        Raises: UnknownVoice, what the stepper's `check_prompt` raises, EngineDraining, EngineUnavailable after `stop`,
        EngineFull (as SlotsClosing when a slot is about to be free).
        """
        if prompt.voice is not None:
            self.spec.check_voice(prompt.voice)
        if isinstance(self._stepper, SupportsPromptCheck):
            self._stepper.check_prompt(prompt)
        with self._changed:
            self._check_running()
            if self._draining:
                raise EngineDraining("the engine takes no new calls, since it is going down")
            lease = self._table.reserve(prompt, self._clock())
            self._changed.notify()
            return lease

    def submit(self, leases: Sequence[Lease], live: Sequence[int], seq: int, pcm: NDArray[np.int16]) -> Exchange:
        """Hand in frames: `pcm` [n, 1920] int16, one row per lease; copied. A turn of `poll` will return the exchange.

        Holds at most one frame a slot: a second one before the tick replaces the first, and both exchanges get that
        tick's answer. Renews every lease it names.

        Raises: ValueError if the lengths do not fit, EngineUnavailable after `stop`.
        """
        if len(live) != len(leases) or pcm.shape != (len(leases), FRAME_SAMPLES) or pcm.dtype != np.int16:
            raise ValueError(
                f"{len(leases)} leases, {len(live)} live flags and pcm {pcm.dtype}{list(pcm.shape)} do not fit together"
            )
        exchange = Exchange(tuple(leases), seq)
        with self._changed:
            self._check_running()
            now = self._clock()
            rows: list[int] = []
            indices: list[int] = []
            for row, (lease, wants_live) in enumerate(zip(leases, live, strict=True)):
                slot = self._table.find(lease)
                if slot is None or slot.phase is Phase.FAILED:
                    continue
                slot.last_use_s = now
                slot.wants_live = slot.has_frame = bool(wants_live)
                slot.live_once = wants_live == Live.ONCE
                if wants_live:
                    rows.append(row)
                    indices.append(slot.index)
            self._inbox[indices] = pcm[rows]
            self._waiting.append(exchange)
            if self._input_complete():
                self._changed.notify()
        return exchange

    def withdraw(self, exchange: Exchange) -> None:
        """The caller no longer waits. Its frames are stepped all the same: engine time goes on."""
        with self._changed:
            if exchange in self._waiting:
                self._waiting.remove(exchange)

    def release(self, lease: Lease) -> None:
        """Give the slot back; it is free after the call into the stepper that may be running. Stale leases are fine."""
        with self._changed:
            slot = self._table.find(lease)
            if slot is not None:
                self._table.release(slot)
                self._changed.notify()

    def drain(self) -> None:
        """Refuse new leases from now on; those that exist go on."""
        with self._changed:
            self._draining = True

    def stop(self) -> None:
        """End `run` after the call into the stepper that may be running."""
        with self._changed:
            self._draining = self._stopping = True
            self._changed.notify()

    def voice_sample(self, voice: str) -> NDArray[np.int16] | None:
        """See `EngineClient.voice_sample`. Takes as long as the stepper needs, beside its steps: from a thread that may
        wait, one call at a time.

        Raises: UnknownVoice, EngineError, what the stepper raises.
        """
        return voice_sample(self._stepper, voice)

    def capacity(self) -> Capacity:
        with self._changed:
            return Capacity(len(self._table), self._table.in_use, self._draining, self._is_ready())

    @property
    def heartbeat_s(self) -> float:
        """When the last turn was completed, on the loop's clock."""
        return self._heartbeat_s

    # ---- the engine thread -------------------------------------------------------------------------------------------

    def run(self, deliver: Callable[[Turn], None]) -> None:
        """Turn until `stop`. `deliver` is called on this thread, for each turn that has something for the clients."""
        try:
            while not self._stopping:
                turn = self.poll()
                if turn.done or turn.freed:
                    deliver(turn)
                self._sleep()  # not at all while there is something to do
        finally:
            deliver(self.shutdown())

    def poll(self) -> Turn:
        """One turn; never sleeps. Call it when `wake_s` says so.

        A turn does one thing, the most urgent one, so that no answer waits for another slot's prefill.
        """
        with self._changed:
            now = self._clock()
            self._excuse_pause(now)
            self._expire_leases(now)
            tick = self._begin_tick(now)
            owed = self._table.to_close()
        turn = Turn()
        if tick is not None:
            if tick.stepped:
                self._step(tick)
            self._finish_tick(tick)
            turn.done = tick.exchanges
        elif owed:
            turn.freed = self._close_slots(owed)
        elif not self._open_slots():
            self._prefill_one()
        self._heartbeat_s = self._clock()
        return turn

    def wake_s(self) -> float:
        """When the next `poll` has something to do; in the past means now."""
        with self._changed:
            return self._wake_s()

    def shutdown(self) -> Turn:
        """Close all slots, shut the stepper down, answer every exchange that waits. The last call on this thread."""
        with self._changed:
            self._draining = self._stopping = True
            done, self._waiting = self._waiting, []
            for slot in self._table:
                if slot.token:
                    self._table.release(slot)
            owed = self._table.to_close()
        for exchange in done:
            exchange.error = EngineUnavailable("the engine has stopped")
        freed = self._close_slots(owed)
        if isinstance(self._stepper, SupportsShutdown):
            try:
                self._stepper.shutdown()
            except Exception:
                log.exception("shutdown raised")
        self._count_slots()
        return Turn(done, freed)

    def _sleep(self) -> None:
        with self._changed:
            while not self._stopping and (left_s := self._wake_s() - self._clock()) > 0:
                self._changed.wait(left_s)

    # ---- the tick ----------------------------------------------------------------------------------------------------

    def _begin_tick(self, now: float) -> Tick | None:
        """Take everything that the tick needs, if it is time for one. Under the lock."""
        if now < self._edges.due_s and not (now >= self._edges.opens_s and self._input_complete()):
            return None
        if self._input_complete():
            self._spare.ticked(max(0.0, self._edges.due_s - now))
        number, skipped = self._edges.begin(now)
        live = np.zeros(len(self._table), np.bool_)
        for slot in self._table:
            live[slot.index] = slot.steps
            if slot.steps:
                slot.phase = Phase.LIVE
                if not slot.has_frame:
                    metrics.INPUTS_MISSING.inc()
            elif slot.phase is Phase.LIVE:
                slot.phase = Phase.FROZEN
            slot.has_frame = False
            slot.wants_live = slot.wants_live and not slot.live_once
        stepped = bool(live.any())
        to_float(self._inbox, out=self._input)
        self._input[~live] = 0.0
        self._inbox.fill(0)  # whoever sends no frame for the next tick is stepped with silence
        exchanges, self._waiting = self._waiting, []
        return Tick(number, skipped if stepped else 0, exchanges, live, stepped)

    def _step(self, tick: Tick) -> None:
        began_s = self._clock()
        try:
            tick.output = self._stepper.step(self._input, tick.live)
            check_output(tick.output, len(self._table))
            tick.pcm = to_int16(tick.output.pcm)
            tick.broken = broken_slots(tick.output, tick.live)
        except Exception:
            tick.output = tick.pcm = None
            self._step_failures += 1
            if self._step_failures >= FATAL_STEP_FAILURES:
                tick.broken = frozenset(np.flatnonzero(tick.live).tolist())
            self._step_failed_s = self._clock()
            log.exception("step raised", in_a_row=self._step_failures)
        else:
            self._step_failures = 0
        ended_s = self._clock()
        tick.step_s = ended_s - began_s
        tick.shed += self._edges.pass_over(ended_s)
        self._spare.stepped(tick.step_s)
        metrics.TICK_SECONDS.observe(tick.step_s)
        if tick.shed:
            metrics.TICKS_SHED.inc(tick.shed)
            if ended_s - self._shed_logged_s >= SHED_LOG_INTERVAL_S:
                self._shed_logged_s = ended_s
                log.warning(
                    "edges went by without a tick",
                    step_s=round(tick.step_s, 4),
                    shed=tick.shed,
                    live=int(tick.live.sum()),
                )

    def _finish_tick(self, tick: Tick) -> None:
        """Answer the exchanges that the tick took along."""
        with self._changed:
            for slot in (self._table[index] for index in tick.broken):
                if slot.token and slot.opened:
                    self._table.fail(slot)
                    log.warning("slot failed", slot=slot.index)
            now = self._clock()
            next_tick_in_s = max(0.0, self._edges.due_s - now)
            told: list[Slot] = []
            answered: set[int] = set()
            for exchange in tick.exchanges:
                outputs = []
                for lease in exchange.leases:
                    owned = self._table.find(lease)
                    outputs.append(self._slot_output(owned, tick))
                    if owned is None:
                        continue
                    owned.last_use_s = now
                    answered.add(owned.index)
                    if owned.phase is Phase.FAILED:
                        told.append(owned)
                exchange.answered_s = now
                exchange.result = TickResult(tick.number, next_tick_in_s, tick.step_s, tick.shed, tuple(outputs))
            self._keep_unread(tick, answered)
            for slot in told:
                self._table.release(slot)
            self._count_slots()

    def _slot_output(self, slot: Slot | None, tick: Tick) -> SlotOutput:
        if slot is None:
            return SlotOutput(SlotStatus.REVOKED)
        if slot.phase is not Phase.LIVE:
            return SlotOutput(slot.status, prefill=slot.progress)
        if tick.output is None or tick.pcm is None:
            return SlotOutput(SlotStatus.LIVE, np.zeros(FRAME_SAMPLES, np.int16))
        index = slot.index
        unread_text, unread_heard = slot.take_unread()
        text = unread_text + (tick.output.text[index] or "")
        return SlotOutput(SlotStatus.LIVE, tick.pcm[index], text or None, unread_heard + tick.output.heard[index])

    def _keep_unread(self, tick: Tick, answered: set[int]) -> None:
        """A conductor that came after the edge gets the words of that step with its next exchange. Its sound is gone:
        played late it would only add delay."""
        if tick.output is None:
            return
        for index in np.flatnonzero(tick.live).tolist():
            slot = self._table[index]
            if index not in answered and slot.phase is Phase.LIVE:
                slot.keep_unread(tick.output.text[index], tick.output.heard[index])

    # ---- opening, prefill, closing -----------------------------------------------------------------------------------

    def _excuse_pause(self, now: float) -> None:
        """Where this thread did not run (a process that was stopped, a machine that slept), its clients did not run
        either, most likely: that time is not held against their leases."""
        pause_s = now - self._heartbeat_s
        if pause_s <= STALE_HEARTBEAT_S:
            return
        log.warning("engine did not run", seconds=round(pause_s, 1), slots_in_use=self._table.in_use)
        for slot in self._table:
            slot.last_use_s = min(now, slot.last_use_s + pause_s)

    def _expire_leases(self, now: float) -> None:
        for exchange in self._waiting:  # whoever waits for us is there, however long the last step took
            for lease in exchange.leases:
                if (slot := self._table.find(lease)) is not None:
                    slot.last_use_s = now
        for slot in self._table.expired(now):
            log.warning("lease expired", slot=slot.index, phase=slot.phase.value)
            self._table.release(slot)

    def _close_slots(self, owed: Sequence[Slot]) -> bool:
        """Give the stepper the calls to `close` that it is owed. True if a slot became free."""
        freed = False
        for slot in owed:
            try:
                self._stepper.close(slot.index)
            except Exception:
                log.exception("close raised", slot=slot.index)
            with self._changed:
                self._table.closed(slot)
                freed = freed or slot.phase is Phase.FREE
        return freed

    def _open_slots(self) -> bool:
        """Show new prompts to the stepper. True if there were any."""
        with self._changed:
            opening = [(slot, slot.token, slot.prompt) for slot in self._table.in_phase(Phase.OPENING)]
            for slot, _, _ in opening:
                slot.opened = True  # from here on, even if `open` raises
        for slot, token, prompt in opening:
            error: Exception | None = None
            try:
                self._stepper.open(slot.index, prompt)
            except Exception as e:
                error = e
                log.exception("open raised", slot=slot.index)
            with self._changed:
                if slot.token != token:  # released meanwhile; the next turn closes it
                    continue
                if error is None:
                    slot.phase = Phase.PREFILL
                else:
                    self._table.fail(slot)
        return bool(opening)

    def _prefill_one(self) -> None:
        """Work on one prompt, for as long as no neighbour's edge is in danger."""
        with self._changed:
            began_s = self._clock()
            index, budget_s = self._next_prefill(began_s)
            if index is None:
                return
            slot = self._table[index]
            token = slot.token
            self._spare.asked(index)
        ready, failed, progress = False, False, (0, 0)
        try:
            ready = bool(self._stepper.prefill(index, budget_s))
            if isinstance(self._stepper, SupportsProgress):
                progress = self._stepper.progress(index)
        except Exception:
            failed = True
            log.exception("prefill raised", slot=index)
        with self._changed:
            self._spare.prefilled(budget_s, self._clock() - began_s)
            if slot.token != token:
                return
            slot.progress = progress
            if failed:
                self._table.fail(slot)
            elif ready:
                slot.phase = Phase.READY

    def _next_prefill(self, now: float) -> tuple[int | None, float]:
        waiting = [slot.index for slot in self._table.in_phase(Phase.PREFILL)]
        if not waiting:
            return None, 0.0
        neighbours = any(slot.steps for slot in self._table)
        return self._spare.next(waiting, self._edges.due_s, now, self._edges.number, neighbours=neighbours)

    # ---- under the lock ----------------------------------------------------------------------------------------------

    def _check_running(self) -> None:
        if self._stopping:
            raise EngineUnavailable("the engine has stopped")

    def _input_complete(self) -> bool:
        """At least one slot is live, and each that is has its frame."""
        live = [slot.has_frame for slot in self._table if slot.steps]
        return bool(live) and all(live)

    def _wake_s(self) -> float:
        now = self._clock()
        if self._table.to_close() or self._table.in_phase(Phase.OPENING) or self._next_prefill(now)[0] is not None:
            return now
        return self._edges.opens_s if self._input_complete() else self._edges.due_s

    def _is_ready(self) -> bool:
        now = self._clock()
        broken = self._step_failures >= FATAL_STEP_FAILURES and now - self._step_failed_s < RETRY_AFTER_FAILURE_S
        return not self._stopping and not broken and now - self._heartbeat_s < STALE_HEARTBEAT_S

    def _count_slots(self) -> None:
        counts = Counter(slot.phase for slot in self._table)
        for phase in Phase:
            metrics.SLOTS.labels(phase.value).set(counts[phase])
