"""How late the machine itself is: what a bound in real time has to be lenient by, and no more."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

_SLEEP_S = 0.01


class Lateness:
    """Of wakings, each with its time (`time.monotonic`, which is the loop's clock too)."""

    def __init__(self) -> None:
        self._wakings: list[tuple[float, float]] = []

    def most_s(self, since_s: float) -> float:
        return max((late_s for at_s, late_s in tuple(self._wakings) if at_s >= since_s), default=0.0)

    def watch(self, ended: threading.Event) -> None:
        while not ended.is_set():
            due_s = time.monotonic() + _SLEEP_S
            time.sleep(_SLEEP_S)
            woken_s = time.monotonic()
            self._wakings.append((woken_s, woken_s - due_s))


@contextlib.contextmanager
def watched_lateness() -> Iterator[Lateness]:
    """A thread that only sleeps: it is late where the machine has no time for anybody."""
    lateness, ended = Lateness(), threading.Event()
    thread = threading.Thread(target=lateness.watch, args=(ended,), name="lateness", daemon=True)
    thread.start()
    try:
        yield lateness
    finally:
        ended.set()
        thread.join()
