"""Timers that run when the test says so."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class VirtualTimer:
    def __init__(self, at_s: float, callback: Callable[[], None]) -> None:
        self.at_s = at_s
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualTime:
    """`call_later` and a clock that only `advance` moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._order = itertools.count()

    def clock(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(self.now + delay_s, callback)
        heapq.heappush(self._timers, (timer.at_s, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        until_s = self.now + seconds
        while self._timers and self._timers[0][0] <= until_s + 1e-9:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                timer.callback()
        self.now = until_s
