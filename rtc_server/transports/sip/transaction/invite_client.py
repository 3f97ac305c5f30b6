"""The client of an INVITE (RFC 3261 section 17.1.1, RFC 6026), with its CANCEL (section 9.1)."""

from __future__ import annotations

from collections.abc import Callable

from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import ClientTransaction, Failure, Layer, State
from rtc_server.transports.sip.transaction.derived import ack_to, cancel_of


class InviteClientTransaction(ClientTransaction):
    """Repeats the INVITE on UDP (timer A) until something is heard, at most 64*T1 (timer B), then lets it ring.

    It acknowledges a refusal itself, each time it arrives. The ACK to a 2xx is a request of the user's, who sees every
    2xx for 64*T1 (timer M): repetitions, and those of other branches of a forked INVITE. What rings without a sign of
    life for as long as timer C is cancelled.

    Args:
        send_cancel: sends a CANCEL, in a transaction of its own.
    """

    def __init__(
        self,
        request: Request,
        flow: Flow,
        layer: Layer,
        on_response: Callable[[Response], None],
        on_failure: Callable[[Failure], None],
        send_cancel: Callable[[Request], None],
    ) -> None:
        super().__init__(request, flow, layer, State.CALLING, on_response, on_failure)
        self._send_cancel = send_cancel
        self._cancel: Request | None = None
        self._cancelling = False
        self._ack = b""

    def start(self) -> None:
        self._start("B", self._intervals.timeout_s, lambda: self._fail(Failure.TIMEOUT))
        if not self.flow.reliable:
            self._repeat("A", self._intervals.t1_s, lambda interval_s: 2 * interval_s)
        self._send_again()

    def receive(self, response: Response) -> None:
        if self.state in (State.CALLING, State.PROCEEDING):
            self._advance(response)
        elif self.state is State.ACCEPTED and 200 <= response.status < 300:
            self._on_response(response)
        elif self.state is State.COMPLETED and response.status >= 300:
            self._send(self._ack)

    def cancel(self, reason: str | None = None) -> None:
        """Call it off. The user still gets a final response: 487, or what the other end has sent before it knew, which
        may be a 2xx; or a timeout 64*T1 after the CANCEL. Without effect after a final response, or a second time.

        Nothing may be cancelled before anything is heard (section 9.1), so the CANCEL may have to wait for that.

        Args:
            reason: value of a Reason header (RFC 3326).
        """
        if self._cancel is None and self.state in (State.CALLING, State.PROCEEDING):
            self._cancel = cancel_of(self.request, reason)
            self._send_wanted_cancel()

    def _advance(self, response: Response) -> None:
        if response.status < 200:
            self._ring(response)
        elif response.status < 300:
            self._enter(State.ACCEPTED)
            self._start("M", self._intervals.timeout_s, self._end)
        else:
            self._enter(State.COMPLETED)
            self._ack = ack_to(self.request, response).to_bytes()
            self._send(self._ack)
            self._linger("D", 0.0 if self.flow.reliable else self._intervals.linger_s)
        self._on_response(response)

    def _ring(self, response: Response) -> None:
        if self.state is State.CALLING:
            self._enter(State.PROCEEDING)
            self._start("C", self._intervals.invite_s, self.cancel)
            self._send_wanted_cancel()
        elif response.status > 100 and not self._cancelling:
            self._start("C", self._intervals.invite_s, self.cancel)

    def _send_wanted_cancel(self) -> None:
        if self._cancel is not None and self.state is State.PROCEEDING:
            self._cancelling = True
            # From now on this is how long the INVITE lives (section 9.1).
            self._start("C", self._intervals.timeout_s, lambda: self._fail(Failure.TIMEOUT))
            self._send_cancel(self._cancel)
