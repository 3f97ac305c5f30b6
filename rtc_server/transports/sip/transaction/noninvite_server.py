"""The server of every request but INVITE and ACK (RFC 3261 section 17.2.2 and figure 8, RFC 4320)."""

from __future__ import annotations

from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.base import Failure, Layer, ServerTransaction, State
from rtc_server.transports.sip.transaction.timers import Intervals


class NonInviteServerTransaction(ServerTransaction):
    """Sends the latest response again whenever the request arrives again, for 64*T1 after the final one (timer J).

    A user that takes long is covered by a 100, but not before the client repeats so slowly that it means nothing worse
    (RFC 4320 section 4.1). After 64*T1 without an answer there is nobody to answer any more (section 4.2).
    """

    def __init__(self, request: Request, flow: Flow, layer: Layer, back: Flow, to_tag: str) -> None:
        super().__init__(request, flow, layer, State.TRYING, back, to_tag)
        self._start("100", _until_slowest_s(self._intervals), self._cover)
        self._start("F", self._intervals.timeout_s, lambda: self._fail(Failure.TIMEOUT))  # as in the client

    def receive(self, request: Request) -> None:
        self._send_again()

    def respond(self, response: Response) -> bool:
        if self.answered:
            return False
        self._latest = response.to_bytes()
        if response.status < 200:
            self.state = State.PROCEEDING
            self._stop("100")
            self._send_again()
        else:
            self._enter(State.COMPLETED)
            self._send_again()
            self._layer.answered()
            self._linger("J", 0.0 if self.flow.reliable else self._intervals.timeout_s)
        return True

    def _cover(self) -> None:
        self.respond(self.reply(100))


def _until_slowest_s(intervals: Intervals) -> float:
    """After how long timer E of a client stands at T2."""
    waited_s, interval_s = 0.0, intervals.t1_s
    while interval_s < intervals.t2_s:
        waited_s += interval_s
        interval_s *= 2
    return waited_s
