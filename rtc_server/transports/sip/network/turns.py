"""How long SIP keeps the event loop from other work.

The loop does everything that is ready before it looks at its timers: with fifty connections that all have something to
say, audio that is due would wait for the last of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from rtc_server.log import get_logger

TURN_S = 0.004
"""Of one turn of the loop, for all sockets together. What is begun is finished."""

Step = Callable[[], bool]
"""As short as can be. True: there may be more to do."""

logger = get_logger(__name__)


class _Work(NamedTuple):
    step: Step
    on_failure: Callable[[], None]


class Turns:
    """Steps of many, `TURN_S` a turn of the loop. Those who wait take a step each, in their order, so that nobody with
    much to say keeps the others from theirs. Event loop's thread only.

    Whoever has to wait should bring nothing more meanwhile: there is no other bound.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: deque[_Work] = deque()
        self._used_s = 0.0
        self._next: asyncio.Handle | None = None

    def take(self, step: Step, on_failure: Callable[[], None]) -> bool:
        """Do it, at once or in later turns. True: it has been done.

        Args:
            on_failure: a step has raised, which is a defect of ours, and there will be no further one. Must not raise.
        """
        work = _Work(step, on_failure)
        self._come_back()
        if self._waiting or self._used_s >= TURN_S:
            self._waiting.append(work)
            return False
        began_s = self._clock()
        spent_s = self._used_s
        more = True
        while more and self._used_s < TURN_S:
            more = _do(work)
            self._used_s = spent_s + self._clock() - began_s
        if more:
            self._waiting.append(work)
        return not more

    def close(self) -> None:
        """What waits is not done any more. May be called twice."""
        self._waiting.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _come_back(self) -> None:
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._next, self._used_s = None, 0.0
        began_s = self._clock()
        while self._waiting and self._used_s < TURN_S:
            work = self._waiting.popleft()
            if _do(work):
                self._waiting.append(work)
            self._used_s = self._clock() - began_s
        if self._waiting:
            self._come_back()


def _do(work: _Work) -> bool:
    """One step. Whatever becomes of it, the others have their turn."""
    try:
        return work.step()
    except Exception:
        logger.exception("SIP socket failed")
        work.on_failure()
        return False
