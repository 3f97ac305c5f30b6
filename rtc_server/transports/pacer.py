"""One clock for all outgoing packets: a slot every 20 ms, in which each leg sends one packet.

Slots lie on an absolute grid, so nothing drifts. After a stall the missed slots are gone: a burst would only move the
delay into the listener's jitter buffer. The conductor moves the grid, slowly, so that a frame of the agent arrives just
before a slot. Where one is late all the same, its slot waits a little: a packet that leaves late is jitter, which
listeners make up for, while a packet without sound is heard, and delays all that follows.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from typing import Protocol

from rtc_server.log import get_logger

SLOT_S = 0.020
MAX_SLEW_S = 0.001
"""Most that a slot moves against the one before it; listeners take it for network jitter."""
MAX_RETURN_S = 0.0004
"""Most that a slot moves back towards the tick, 20 ms a second: a frame that misses its slot costs more than a little
delay, and machines that were slow once are slow again."""
MAX_WAIT_S = 0.015
"""Most that a slot waits for its frame. Less than a slot, so that two packets do not leave together."""
LOOK_AGAIN_S = 0.001
"""While a slot waits."""

logger = get_logger(__name__)


class SlotGrid:
    """When the slots are. Sans-IO; all times are seconds of `time.monotonic()`."""

    def __init__(self, start_s: float) -> None:
        self.next_s = start_s
        """When there may be a slot to take: the next slot, or a moment later where it waits."""
        self.skipped = 0
        """Slots that went by during stalls."""
        self._slot_s = start_s
        self._tick_s: float | None = None
        """Of the tick whose output has not come yet."""
        self._wanted_offset_s = 0.0
        self._offset_s = 0.0
        self._punctual = False
        """The last output came before its slot had to go without it. No slot waits for what never comes in time."""

    def align(self, tick_s: float, offset_s: float) -> None:
        """The output of a tick is there. The next tick is at `tick_s`; let a slot fall `offset_s` behind it, when its
        output usually is. Ticks come in multiples of 20 ms.

        The offset is no phase: when it grows, slots move later, when it shrinks, earlier, though the same phase may lie
        nearer the other way round. Otherwise an offset that rises fast and falls slowly would turn the grid against the
        wall clock, and RTP time with it.
        """
        if self._tick_s is None:
            self._offset_s = offset_s
        else:
            self._punctual = self._slot_s < self._tick_s + self._offset_s + SLOT_S / 2
        self._tick_s = tick_s
        self._wanted_offset_s = offset_s

    def take(self, now: float) -> float | None:
        """The slot to serve at `now`, by its time on the grid: the newest one due. None when it is too early, or its
        frame is late."""
        if now < self.next_s:
            return None
        if self._misses_its_frame:
            if now < self._slot_s + MAX_WAIT_S:
                self.next_s = now + LOOK_AGAIN_S
                return None
            self._punctual = False
        missed = int((now - self.next_s) / SLOT_S)  # the time that a slot has waited is no stall
        self.skipped += missed
        slot_s = self._slot_s + missed * SLOT_S
        following_s = slot_s + SLOT_S
        self.next_s = self._slot_s = following_s + self._slew_s(following_s)
        return slot_s

    def restart(self, now: float) -> None:
        """Go on from `now` after a time without legs: no slot counts as skipped, and the wanted phase is taken at once,
        since nobody hears the jump."""
        phase_s = self._slot_s
        if self._tick_s is not None:
            self._offset_s = self._wanted_offset_s
            phase_s = self._tick_s + self._offset_s
        self.next_s = self._slot_s = phase_s + SLOT_S * math.ceil((now - phase_s) / SLOT_S)

    @property
    def _misses_its_frame(self) -> bool:
        """Is the next slot the one for a tick whose output is still to come, and worth waiting for?"""
        if self._tick_s is None or not self._punctual:
            return False
        return abs(self._tick_s + self._offset_s - self._slot_s) <= SLOT_S / 2

    def _slew_s(self, slot_s: float) -> float:
        if self._tick_s is None:
            return 0.0
        change_s = self._wanted_offset_s - self._offset_s
        self._offset_s += max(-MAX_RETURN_S, min(MAX_SLEW_S, change_s))
        error_s = (self._tick_s + self._offset_s - slot_s + SLOT_S / 2) % SLOT_S - SLOT_S / 2
        return max(-MAX_SLEW_S, min(MAX_SLEW_S, error_s))


class PacketSender(Protocol):
    """A leg, as far as the pacer needs it."""

    def send_packet(self, slot_s: float) -> None:
        """Send the packet of the slot that was due at `slot_s`. Must not block."""

    def fail(self, reason: str) -> None:
        """`send_packet` has raised: close this leg. Its neighbours go on."""


class Pacer:
    """Owns the grid and the one task that serves it. Event loop's thread only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.grid = SlotGrid(clock())
        self._clock = clock
        self._senders: dict[int, PacketSender] = {}
        self._occupied = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="pacer")

    async def stop(self) -> None:
        """May be called twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def add(self, sender: PacketSender) -> None:
        self._senders[id(sender)] = sender
        self._occupied.set()

    def remove(self, sender: PacketSender) -> None:
        """May be called twice."""
        self._senders.pop(id(sender), None)
        if not self._senders:
            self._occupied.clear()

    def align(self, tick_s: float, offset_s: float) -> None:
        """Let packet slots fall `offset_s` behind ticks such as the one at `tick_s`."""
        self.grid.align(tick_s, offset_s)

    async def _run(self) -> None:
        while True:
            if not self._senders:
                await self._occupied.wait()
                self.grid.restart(self._clock())
            await asyncio.sleep(max(0.0, self.grid.next_s - self._clock()))
            slot_s = self.grid.take(self._clock())
            if slot_s is not None:
                self._serve(slot_s)

    def _serve(self, slot_s: float) -> None:
        for sender in list(self._senders.values()):
            try:
                sender.send_packet(slot_s)
            except Exception:
                # A defect in one leg must not silence the others.
                logger.exception("leg cannot send")
                self.remove(sender)
                sender.fail("internal_error")
