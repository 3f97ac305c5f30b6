"""Is a silent peer still there?"""

from __future__ import annotations

from collections.abc import Callable

from rtc_server.transports.sip.transaction.timers import Timer, Timers


class Probe:
    """Asks when nothing was heard for `quiet_s`, and again each time that so much more silence has passed.

    Args:
        heard_s: when something was last heard of the peer, on the clock of `timers`.
        wanted: False while silence says nothing.
        ask: sends a request in the dialog. Its failure ends the call; its success shows in `heard_s`.
    """

    def __init__(
        self,
        timers: Timers,
        quiet_s: float,
        heard_s: Callable[[], float],
        wanted: Callable[[], bool],
        ask: Callable[[], None],
    ) -> None:
        self._timers = timers
        self._quiet_s = quiet_s
        self._heard_s = heard_s
        self._wanted = wanted
        self._ask = ask
        self._timer: Timer | None = None

    def start(self) -> None:
        self.stop()
        self._timer = self._timers.after(self._quiet_s, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        due_s = self._heard_s() + self._quiet_s
        if due_s > self._timers.now_s:
            self._timer = self._timers.schedule(due_s, self._look)
            return
        self.start()
        if self._wanted():
            self._ask()
