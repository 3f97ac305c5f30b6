"""How long SIP keeps the event loop from other work.

The loop does everything that is ready before it looks at its timers: with fifty connections that all have something to
say, audio that is due would wait for the last of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

TURN_S = 0.004
"""Of one turn of the loop. What is begun is finished."""


class Turns:
    """Work of many, in the order in which it comes, `TURN_S` a turn of the loop. Event loop's thread only.

    Whoever has to wait should bring nothing more meanwhile: there is no other bound.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._used_s = 0.0
        self._next: asyncio.Handle | None = None

    def take(self, work: Callable[[], None]) -> bool:
        """Do it, at once or in a later turn, where it must not raise. True: it has been done."""
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._begin)
        if self._waiting or self._used_s >= TURN_S:
            self._waiting.append(work)
            return False
        self._do(work)
        return True

    def _begin(self) -> None:
        self._next, self._used_s = None, 0.0
        while self._waiting and self._used_s < TURN_S:
            self._do(self._waiting.popleft())
        if self._waiting:
            self._next = asyncio.get_running_loop().call_soon(self._begin)

    def _do(self, work: Callable[[], None]) -> None:
        began_s = self._clock()
        try:
            work()
        finally:
            self._used_s += self._clock() - began_s
