"""Has an engine fallen silent, or did we sleep? Sans-IO.

A process that was stopped, or a machine that froze, wakes up to a silence that nobody has kept: everybody slept. So a
silence counts only when it is still there at a second look, by when an engine that lives has been heard.
"""

from __future__ import annotations

SECOND_LOOK_S = 0.25


class SilenceWatch:
    """Of one engine, whose owner looks at it now and then. One thread.

    Args:
        lost_after_s: an engine that was silent for longer is lost.
    """

    def __init__(self, lost_after_s: float) -> None:
        self._lost_after_s = lost_after_s
        self._suspected_s: float | None = None

    def is_lost(self, heard_s: float, now: float) -> bool:
        """`heard_s`: when the engine was last heard of, on the clock of `now`."""
        if now - heard_s <= self._lost_after_s:
            self._suspected_s = None
            return False
        if self._suspected_s is None:
            self._suspected_s = now
        return now - self._suspected_s >= SECOND_LOOK_S
