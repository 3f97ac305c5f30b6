"""One heap for all timers of SIP, on a clock that is passed in. Sans-IO: whoever owns the event loop asks for `next_s`
and calls `run_due`."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from rtc_server.log import get_logger

MAX_CANCELLED = 256
"""Cancelled timers that may lie in the heap, or as many as running ones where those are more."""

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Of RFC 3261 section 17 and table 4, in seconds. The defaults are the RFC's; a private network may have others."""

    t1_s: float = 0.5
    """An estimate of the round-trip time."""
    t2_s: float = 4.0
    """Longest between two repetitions of a non-INVITE request, or of a response to an INVITE."""
    t4_s: float = 5.0
    """Longest that a message stays in the network."""
    invite_s: float = 180.0
    """Timer C: how long an INVITE may ring after each sign of life (section 16.6 step 11)."""

    @property
    def timeout_s(self) -> float:
        """64*T1: timers B, F, H, J, L and M."""
        return 64 * self.t1_s

    @property
    def linger_s(self) -> float:
        """Timer D, on an unreliable transport: at least 32 s."""
        return max(32.0, self.timeout_s)


class Timer:
    """Something to be done at `at_s`, unless it is cancelled before."""

    __slots__ = ("_callback", "_timers", "at_s")

    def __init__(self, at_s: float, callback: Callable[[], None], timers: Timers) -> None:
        self.at_s = at_s
        self._callback: Callable[[], None] | None = callback
        self._timers = timers

    @property
    def pending(self) -> bool:
        return self._callback is not None

    def cancel(self) -> None:
        """May be called again and again, and after the timer has run."""
        if self._callback is not None:
            self._callback = None
            self._timers._on_cancelled()

    def _run(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Timers:
    """Runs each callback once, in the order of time, never before its time. One thread only.

    Args:
        clock: monotonic seconds.
        on_earlier: called when `next_s` has moved closer: whoever sleeps until `next_s` must wake.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, on_earlier: Callable[[], None] | None = None
    ) -> None:
        self.on_earlier = on_earlier
        self._clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._cancelled = 0

    def __len__(self) -> int:
        """Timers that will still run."""
        return len(self._heap) - self._cancelled

    @property
    def now_s(self) -> float:
        return self._clock()

    @property
    def next_s(self) -> float | None:
        """When `run_due` has something to do. None: there is nothing to wait for."""
        while self._heap and not self._heap[0][2].pending:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def schedule(self, at_s: float, callback: Callable[[], None]) -> Timer:
        """Call at `at_s` of the clock; timers of one moment run in the order in which they were scheduled."""
        timer = Timer(at_s, callback, self)
        first = self.next_s
        heapq.heappush(self._heap, (at_s, next(self._order), timer))
        if self.on_earlier is not None and (first is None or at_s < first):
            self.on_earlier()
        return timer

    def after(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `delay_s` from now."""
        return self.schedule(self._clock() + delay_s, callback)

    def run_due(self, now_s: float | None = None) -> None:
        """Call what is due at `now_s` (default: now), also what is scheduled meanwhile. A callback that raises is
        logged; the others run."""
        limit_s = self._clock() if now_s is None else now_s
        while (next_s := self.next_s) is not None and next_s <= limit_s:
            timer = heapq.heappop(self._heap)[2]
            try:
                timer._run()
            except Exception:
                # A defect in one call must not stop the timers of the others.
                logger.exception("SIP timer failed")

    def _on_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > max(MAX_CANCELLED, len(self)):
            self._heap = [entry for entry in self._heap if entry[2].pending]
            heapq.heapify(self._heap)
            self._cancelled = 0
