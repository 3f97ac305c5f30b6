"""A 2xx to an INVITE that waits for its ACK (RFC 3261 section 13.3.1.4). Sans-IO.

The ACK is a request of its own that any proxy may lose, so this is not the transaction's business but the core's, and
on every transport.
"""

from __future__ import annotations

from collections.abc import Callable

from rtc_server.transports.sip.transaction.timers import Intervals, Timer, Timers


class AwaitedAck:
    """Sends the response again after T1, then after twice as long, up to T2, until it is stopped.

    `stop` it when the ACK is there, and when the call ends, by a BYE of either side for one: a repeated 2xx would offer
    a call that is over.

    Args:
        repeat: sends the response again. The first time it has been sent already.
        on_lost: no ACK in 64*T1: the call must be ended with a BYE. Nothing is repeated any more.
    """

    def __init__(
        self, timers: Timers, intervals: Intervals, repeat: Callable[[], None], on_lost: Callable[[], None]
    ) -> None:
        self._timers = timers
        self._intervals = intervals
        self._repeat = repeat
        self._on_lost = on_lost
        self._deadline = timers.after(intervals.timeout_s, self._give_up)
        self._repetition = self._schedule(intervals.t1_s)

    @property
    def waiting(self) -> bool:
        return self._deadline.pending

    def stop(self) -> None:
        """May be called again and again, from within `repeat` too."""
        self._deadline.cancel()
        self._repetition.cancel()

    def _schedule(self, interval_s: float) -> Timer:
        def again() -> None:
            self._repetition = self._schedule(min(2 * interval_s, self._intervals.t2_s))
            self._repeat()

        return self._timers.after(interval_s, again)

    def _give_up(self) -> None:
        self.stop()
        self._on_lost()
