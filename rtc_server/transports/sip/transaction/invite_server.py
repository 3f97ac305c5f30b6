"""The server of an INVITE (RFC 3261 section 17.2.1, RFC 6026)."""

from __future__ import annotations

from collections.abc import Callable

from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import Failure, Layer, ServerTransaction, State


class InviteServerTransaction(ServerTransaction):
    """Repeats a refusal on UDP (timer G) until its ACK, at most 64*T1 (timer H), and absorbs what comes late.

    A 2xx is repeated by the user, on every transport, until its ACK, which is a request of its own; the transaction
    only keeps repeated INVITEs from becoming calls, for 64*T1 (timer L). How long it may ring is the user's matter.
    """

    def __init__(self, request: Request, flow: Flow, layer: Layer, back: Flow, to_tag: str) -> None:
        super().__init__(request, flow, layer, State.PROCEEDING, back, to_tag)
        self.on_cancel: Callable[[Request], None] | None = None
        """Set by the user: told of the CANCEL before the 487 goes out. It may respond otherwise, or just tidy up."""

    def receive(self, request: Request) -> None:
        if request.method != "ACK":
            if self.state in (State.PROCEEDING, State.COMPLETED):
                self._send_again()
        elif self.state is State.COMPLETED:
            self._enter(State.CONFIRMED)
            self._linger("I", 0.0 if self.flow.reliable else self._intervals.t4_s)

    def trying(self) -> None:
        """Send 100, unless something has been sent: it stops the client from repeating its INVITE."""
        if self.state is State.PROCEEDING and not self._latest:
            self.respond(self.reply(100))

    def respond(self, response: Response) -> bool:
        if self.state is State.ACCEPTED and 200 <= response.status < 300:
            self._send(response.to_bytes())
            return True
        if self.state is not State.PROCEEDING:
            return False
        self._latest = response.to_bytes()
        if 200 <= response.status < 300:
            self._enter(State.ACCEPTED)
            self._start("L", self._intervals.timeout_s, self._end)
        elif response.status >= 300:
            self._enter(State.COMPLETED)
            self._layer.answered()
            self._start("H", self._intervals.timeout_s, lambda: self._fail(Failure.TIMEOUT))
            if not self.flow.reliable:
                self._repeat("G", self._intervals.t1_s, self._doubled)
        self._send_again()
        return True

    def cancel(self, request: Request) -> None:
        """The other end calls it off (section 9.2). What has had its final response is not touched."""
        if self.state is not State.PROCEEDING:
            return
        try:
            if self.on_cancel is not None:
                self.on_cancel(request)
        finally:
            self.respond(self.reply(487))
