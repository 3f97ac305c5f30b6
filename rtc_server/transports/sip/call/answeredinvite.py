"""An INVITE that was answered with a 2xx, until its ACK is there."""

from __future__ import annotations

from collections.abc import Callable

from rtc_server.transports.sip.dialog.awaitedack import AwaitedAck
from rtc_server.transports.sip.message.headers import CSeq
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.transaction.timers import Intervals, Timers


class AnsweredInvite:
    """Sends the 2xx, and again until `acknowledged` or `stop`.

    Args:
        on_ack: gets the ACK, once.
        on_lost: it has not come in 64*T1.
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
        self._cseq = CSeq.parse(transaction.request.headers.get("CSeq") or "").number
        self._on_ack = on_ack
        transaction.respond(response)
        self._awaited = AwaitedAck(timers, intervals, lambda: _repeat(transaction, response), on_lost)

    @property
    def waiting(self) -> bool:
        return self._awaited.waiting

    def acknowledged(self, ack: Request) -> None:
        """An ACK has arrived, of this INVITE or of another one."""
        if self.waiting and CSeq.parse(ack.headers.get("CSeq") or "").number == self._cseq:
            self._awaited.stop()
            self._on_ack(ack)

    def stop(self) -> None:
        self._awaited.stop()


def _repeat(transaction: ServerTransaction, response: Response) -> None:
    transaction.respond(response)
