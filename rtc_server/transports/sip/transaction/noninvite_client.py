"""The client of every request but INVITE and ACK (RFC 3261 section 17.1.2 and figure 6)."""

from __future__ import annotations

from collections.abc import Callable

from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import ClientTransaction, Failure, Layer, State


class NonInviteClientTransaction(ClientTransaction):
    """Repeats the request on UDP (timer E), and waits 64*T1 for a final response (timer F)."""

    def __init__(
        self,
        request: Request,
        flow: Flow,
        layer: Layer,
        on_response: Callable[[Response], None],
        on_failure: Callable[[Failure], None],
    ) -> None:
        super().__init__(request, flow, layer, State.TRYING, on_response, on_failure)

    def start(self) -> None:
        self._start("F", self._intervals.timeout_s, lambda: self._fail(Failure.TIMEOUT))
        if not self.flow.reliable:
            self._repeat("E", self._intervals.t1_s, self._next_interval_s)
        self._send_again()

    def receive(self, response: Response) -> None:
        if self.state not in (State.TRYING, State.PROCEEDING):
            return
        if response.status < 200:
            self.state = State.PROCEEDING
        else:
            self._enter(State.COMPLETED)
            self._linger("K", 0.0 if self.flow.reliable else self._intervals.t4_s)
        self._on_response(response)

    def _next_interval_s(self, interval_s: float) -> float:
        return self._intervals.t2_s if self.state is State.PROCEEDING else self._doubled(interval_s)
