"""An INVITE that was answered with a 2xx, until its ACK is there (RFC 3261 section 13.3.1.4). Sans-IO.

The ACK is a request of its own that any proxy may lose, so this is not the transaction's business but the core's, and
on every transport.
"""

from __future__ import annotations

from collections.abc import Callable

from rtc_server.transports.sip.message.headers import CSeq
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.transaction.timers import Intervals, Timer, Timers


class AnsweredInvite:
    """Sends the 2xx; again after T1, then after twice as long, up to T2, until `acknowledged` or `stop`.

    `stop` it when the call ends, by a BYE of either side for one: a repeated 2xx would offer a call that is over.

    Args:
        on_ack: gets the ACK, once.
        on_lost: it has not come in 64*T1: the call must be ended with a BYE. Nothing is repeated any more.
    """

    def __init__(
        self,
        transaction: ServerTransaction,
        response: Response,
        timers: Timers,
        intervals: Intervals,
        on_ack: Callable[[Request], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._transaction = transaction
        self._response = response
        self._cseq = CSeq.parse(transaction.request.headers.get("CSeq") or "").number
        self._timers = timers
        self._intervals = intervals
        self._on_ack = on_ack
        self._on_lost = on_lost
        transaction.respond(response)
        self._deadline = timers.after(intervals.timeout_s, self._give_up)
        self._repetition = self._schedule(intervals.t1_s)

    @property
    def waiting(self) -> bool:
        return self._deadline.pending

    def acknowledged(self, ack: Request) -> None:
        """An ACK has arrived, of this INVITE or of another one."""
        if self.waiting and CSeq.parse(ack.headers.get("CSeq") or "").number == self._cseq:
            self.stop()
            self._on_ack(ack)

    def stop(self) -> None:
        """May be called again and again, from within a repetition too."""
        self._deadline.cancel()
        self._repetition.cancel()

    def _schedule(self, interval_s: float) -> Timer:
        def again() -> None:
            self._repetition = self._schedule(min(2 * interval_s, self._intervals.t2_s))
            self._transaction.respond(self._response)

        return self._timers.after(interval_s, again)

    def _give_up(self) -> None:
        self.stop()
        self._on_lost()
