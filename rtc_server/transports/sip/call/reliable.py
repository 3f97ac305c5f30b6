"""Provisional responses that must arrive (RFC 3262), for a caller who requires them."""

from __future__ import annotations

import random
from collections.abc import Callable

from rtc_server.transports.sip.message.headers import CSeq, RAck
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.transaction.timers import Intervals, Timer, Timers

MAX_RSEQ = 2**31 - 1


class ReliableProvisional:
    """Sends one response, and again after T1, 2*T1, 4*T1 ... until its PRACK is there, or until `stop`.

    Args:
        on_lost: there was none in 64*T1: the INVITE is to be refused (section 3).
    """

    def __init__(
        self,
        transaction: ServerTransaction,
        response: Response,
        timers: Timers,
        intervals: Intervals,
        source: random.Random,
        on_lost: Callable[[], None],
    ) -> None:
        rseq = source.randrange(1, MAX_RSEQ)
        response.headers.add("Require", "100rel")
        response.headers.set("RSeq", str(rseq))
        invite = CSeq.parse(transaction.request.headers.get("CSeq") or "")
        self._rack = RAck(rseq, invite.number, invite.method)
        self._transaction = transaction
        self._response = response
        self._timers = timers
        self._on_lost = on_lost
        self._waiting = True
        self._deadline = timers.after(intervals.timeout_s, self._give_up)
        transaction.respond(response)
        self._repetition = self._schedule(intervals.t1_s)

    def acknowledges(self, prack: Request) -> bool:
        """Whether this PRACK is for our response, and the first one: it is to be answered 200, any other 481."""
        try:
            rack = RAck.parse(prack.headers.get("RAck") or "")
        except ValueError:
            return False
        if not self._waiting or rack != self._rack:
            return False
        self._waiting = False
        self.stop()
        return True

    def stop(self) -> None:
        """May be called again and again. A PRACK that comes later is still answered."""
        self._deadline.cancel()
        self._repetition.cancel()

    def _schedule(self, interval_s: float) -> Timer:
        def again() -> None:
            self._repetition = self._schedule(2 * interval_s)
            self._transaction.respond(self._response)

        return self._timers.after(interval_s, again)

    def _give_up(self) -> None:
        self.stop()
        self._on_lost()
