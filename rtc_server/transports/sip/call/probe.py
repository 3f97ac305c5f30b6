"""Is a silent peer still there?"""

from __future__ import annotations

import math
from collections.abc import Callable

from rtc_server.transports.sip.transaction.timers import Timer, Timers

LOOK_EVERY_S = 20.0


class Probe:
    """Asks when nothing was heard for `patience_s`, and again each time that so much more silence has passed.

    Args:
        heard_s: when something was last heard of the peer, on the clock of `timers`.
        patience_s: how much silence says nothing, as it is now: more of it while nobody is to send.
        ask: sends a request in the dialog. Its failure ends the call; its success shows in `heard_s`.
    """

    def __init__(
        self,
        timers: Timers,
        heard_s: Callable[[], float],
        patience_s: Callable[[], float],
        ask: Callable[[], None],
    ) -> None:
        self._timers = timers
        self._heard_s = heard_s
        self._patience_s = patience_s
        self._ask = ask
        self._asked_s = -math.inf
        self._timer: Timer | None = None

    def start(self) -> None:
        self.stop()
        self._timer = self._timers.after(LOOK_EVERY_S, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now_s = self._timers.now_s
        due_s = max(self._heard_s(), self._asked_s) + self._patience_s()
        is_due = due_s <= now_s
        latest_s = now_s + LOOK_EVERY_S  # patience may end early, when a held call is resumed
        self._timer = self._timers.schedule(latest_s if is_due else min(due_s, latest_s), self._look)
        if is_due:
            self._asked_s = now_s
            self._ask()
