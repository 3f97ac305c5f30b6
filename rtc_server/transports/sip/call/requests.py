"""Requests of ours within a dialog: numbered, sent on the dialog's path, their challenges answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from rtc_server.errors import CapacityError
from rtc_server.transports.sip.call.credentials import CREDENTIALS, Credentials
from rtc_server.transports.sip.call.path import Path
from rtc_server.transports.sip.dialog.dialog import Dialog
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.headers import CSeq
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import Failure
from rtc_server.transports.sip.transaction.layer import Transactions

Outcome = Response | Failure
OnOutcome = Callable[[Outcome], None]
Guard = Callable[[Callable[[], None]], None]
"""Runs a piece of one call's work; what it raises ends this call and nothing else."""


class End(Protocol):
    """Ends a call: why, and what more is known of it."""

    def __call__(self, reason: str, *, detail: str | None = None) -> None: ...


def status_of(outcome: Outcome) -> int:
    """A request without a final response counts as 408 or 503 (RFC 3261 section 8.1.3.1)."""
    return outcome.status if isinstance(outcome, Response) else outcome.value


class DialogRequests:
    """
    Args:
        on_gone: the peer knows nothing of this dialog any more (481), does not answer (section 12.2.1.2), or cannot be
            reached.
        on_alive: it has answered.
    """

    def __init__(
        self,
        dialog: Dialog,
        path: Path,
        transactions: Transactions,
        credentials: Callable[[], Credentials],
        guard: Guard,
        on_gone: Callable[[], None],
        on_alive: Callable[[], None],
    ) -> None:
        self.dialog = dialog
        self.path = path
        self._transactions = transactions
        self._credentials = credentials
        self._guard = guard
        self._on_gone = on_gone
        self._on_alive = on_alive
        self._acknowledged = 0  # CSeq of the last INVITE of ours in this dialog that has had its 2xx
        self._said_again = False  # the BYE, over another connection

    def send(
        self,
        method: str,
        on_outcome: OnOutcome = lambda outcome: None,
        *,
        body: bytes = b"",
        headers: Sequence[tuple[str, str]] = (),
    ) -> Request:
        """Send a request. `on_outcome` is called once; before this returns, where it cannot be sent.

        Returns: the request; its CSeq is that of the last time it was sent, when it has to be sent again.
        """
        request = self.dialog.request(method)
        for name, value in headers:
            request.headers.add(name, value)
        request.body = body
        self._transmit(request, self._credentials(), on_outcome)
        return request

    def ack(self, invite: Request) -> None:
        """Acknowledge the 2xx to an INVITE of ours; again, when it arrives again."""
        number = CSeq.parse(invite.headers.get("CSeq") or "").number
        ack = self.dialog.ack(number)
        for name in CREDENTIALS:
            for value in invite.headers.all(name):
                ack.headers.add(name, value)
        self.path.use(lambda flow: self._send_ack(ack, flow))

    def _send_ack(self, ack: Request, flow: Flow | None) -> None:
        if flow is not None:
            self._credentials().withhold(ack, *self.path.hosts_of(flow))
            self._transactions.send_ack(ack, flow)

    def _transmit(self, request: Request, credentials: Credentials, on_outcome: OnOutcome) -> None:
        self.path.use(lambda flow: self._guard(partial(self._start, request, credentials, on_outcome, flow)))

    def _start(self, request: Request, credentials: Credentials, on_outcome: OnOutcome, flow: Flow | None) -> None:
        if flow is None:
            self._finish(on_outcome, Failure.TRANSPORT, fatal=True)
            return
        hosts = self.path.hosts_of(flow)
        credentials.withhold(request, *hosts)

        def on_response(response: Response) -> None:
            self._guard(partial(self._on_response, request, hosts, credentials, on_outcome, response))

        def on_failure(failure: Failure) -> None:
            # A connection that has closed is opened again by the next request, and by a BYE, which has no next.
            recovers = failure is Failure.TRANSPORT and flow.reliable
            if recovers and request.method == "BYE" and not self._said_again:
                self._said_again = True
                self.path.on_flow_closed(flow)
                self._guard(partial(self._transmit_again, request, credentials, on_outcome))
            else:
                self._guard(partial(self._finish, on_outcome, failure, fatal=not recovers and _is_of_call(request)))

        start = self._transactions.invite if request.method == "INVITE" else self._transactions.request
        try:
            start(request, flow, on_response, on_failure)
        except CapacityError:
            on_outcome(Failure.TRANSPORT)

    def _on_response(
        self,
        request: Request,
        hosts: Sequence[str],
        credentials: Credentials,
        on_outcome: OnOutcome,
        response: Response,
    ) -> None:
        if response.status < 200:
            return
        if request.method == "UPDATE" and response.status < 300:
            self.dialog.refresh_target(response)
        elif request.method == "INVITE" and response.status < 300:
            number = CSeq.parse(request.headers.get("CSeq") or "").number
            known = self._acknowledged == number
            self._acknowledged = number
            if not known:
                self.dialog.refresh_target(response)
            self.ack(request)
            if known:
                return  # the 2xx again: its ACK was lost
        if response.status in (401, 407) and credentials.answer(request, response, *hosts):
            self._transmit_again(request, credentials, on_outcome)
            return
        self._finish(on_outcome, response, fatal=_is_of_call(request))

    def _transmit_again(self, request: Request, credentials: Credentials, on_outcome: OnOutcome) -> None:
        """As a new request: the other end may have seen the last one."""
        self.dialog.local_cseq += 1
        request.headers.set("CSeq", f"{self.dialog.local_cseq} {request.method}")
        self._transmit(request, credentials, on_outcome)

    def _finish(self, on_outcome: OnOutcome, outcome: Outcome, *, fatal: bool) -> None:
        """`fatal`: where it has not arrived, nobody is there."""
        status = status_of(outcome)
        if isinstance(outcome, Response) and status not in (408, 481):
            self._on_alive()
        on_outcome(outcome)
        if fatal and (status in (408, 481) or outcome is Failure.TRANSPORT):
            self._on_gone()


def _is_of_call(request: Request) -> bool:
    """A NOTIFY that is not taken ends a subscription, and the call goes on (RFC 5057 section 5.1)."""
    return request.method != "NOTIFY"
