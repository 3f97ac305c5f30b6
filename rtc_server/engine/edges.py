"""When to tick: absolute edges every 80 ms. Sans-IO.

Edge n lies at ``origin + n * 80 ms``: nothing is ever added up, so nothing drifts. The tick for edge n may run early,
when all its input is there, but not before edge n - 1: the engine can lead its clock by one frame at most. An edge that
went by without a tick is gone.
"""

from __future__ import annotations

from rtc_server.engine.stepper import FRAME_S


class TickEdges:
    """Which edge the next tick counts for."""

    def __init__(self, origin_s: float) -> None:
        self._origin_s = origin_s
        self._next = 1

    def edge_s(self, number: int) -> float:
        return self._origin_s + number * FRAME_S

    @property
    def number(self) -> int:
        """The edge that the next tick counts for, if nothing goes wrong before."""
        return self._next

    @property
    def opens_s(self) -> float:
        """From here on the next tick may run, if its input is complete."""
        return self.edge_s(self._next - 1)

    @property
    def due_s(self) -> float:
        """Here the next tick runs at the latest."""
        return self.edge_s(self._next)

    def begin(self, now: float) -> tuple[int, int]:
        """Start the tick: (the edge it counts for, edges before it that nobody was awake for)."""
        tick = max(self._next, self._newest(now))
        skipped = tick - self._next
        self._next = tick + 1
        return tick, skipped

    def pass_over(self, now: float) -> int:
        """End the tick: give up the edges that went by meanwhile. Returns their number."""
        skipped = max(0, self._newest(now) + 1 - self._next)
        self._next += skipped
        return skipped

    def _newest(self, now: float) -> int:
        """The last edge at or before `now`."""
        number = int((now - self._origin_s) / FRAME_S)
        if self.edge_s(number + 1) <= now:
            return number + 1
        return number - 1 if self.edge_s(number) > now else number
