"""For tests of transactions: a clock that only moves when told to, messages, and an end of the wire that keeps them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from rtc_server.transports.sip.flow import Flow, Transport
from rtc_server.transports.sip.message.message import Request, Response, parse
from rtc_server.transports.sip.transaction.base import Failure, ServerTransaction
from rtc_server.transports.sip.transaction.invite_client import InviteClientTransaction
from rtc_server.transports.sip.transaction.invite_server import InviteServerTransaction
from rtc_server.transports.sip.transaction.layer import MAX_TRANSACTIONS, Transactions
from rtc_server.transports.sip.transaction.timers import Timers

OURS = ("192.0.2.10", 5060)
THEIRS = ("198.51.100.7", 5062)


class VirtualTime:
    """Seconds since 0, and the timers that run on them."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers = Timers(lambda: self.now_s)

    def advance(self, seconds: float) -> None:
        """Run every timer at its very moment."""
        self.advance_to(self.now_s + seconds)

    def advance_to(self, end_s: float) -> None:
        while (next_s := self.timers.next_s) is not None and next_s <= end_s:
            self.now_s = max(self.now_s, next_s)
            self.timers.run_due()
        self.now_s = max(self.now_s, end_s)


class Wire:
    """Keeps what is sent, and when."""

    def __init__(self, time: VirtualTime) -> None:
        self.sent: list[tuple[float, Request | Response, Flow]] = []
        self.broken = False
        self._time = time
        self._taken = 0

    def send(self, data: bytes, flow: Flow) -> None:
        if self.broken:
            raise ConnectionResetError
        self.sent.append((round(self._time.now_s, 3), parse(data), flow))

    def take(self) -> list[str]:
        """Methods and statuses of what has been sent since the last time."""
        new, self._taken = self.sent[self._taken :], len(self.sent)
        return [name_of(message) for _, message, _ in new]

    def times(self, name: str) -> list[float]:
        """When each message of this method or status was sent."""
        return [at_s for at_s, message, _ in self.sent if name_of(message) == name]

    def last(self, name: str) -> Request | Response:
        return next(self._named(name))

    def _named(self, name: str) -> Iterator[Request | Response]:
        return (message for _, message, _ in reversed(self.sent) if name_of(message) == name)


class Agent:
    """A transaction layer on a wire, and a user that keeps what it is told."""

    def __init__(
        self,
        time: VirtualTime,
        on_request: Callable[[ServerTransaction], None] | None = None,
        limit: int = MAX_TRANSACTIONS,
        local: tuple[str, int] = OURS,
    ) -> None:
        self.time = time
        self.wire = Wire(time)
        self.servers: list[ServerTransaction] = []
        self.acks: list[Request] = []
        self.responses: list[int] = []
        self.failures: list[tuple[float, Failure]] = []
        self._react = on_request
        count = itertools.count(1)
        self.transactions = Transactions(
            self.wire.send,
            time.timers,
            self._on_request,
            lambda ack, flow: self.acks.append(ack),
            limit=limit,
            random_token=lambda: f"{local[0]}-{next(count)}",
        )

    def receive(self, message: Request | Response, way: Flow | None = None) -> None:
        self.transactions.receive(message, way or flow())

    def invited(self, message: Request | None = None, way: Flow | None = None) -> InviteServerTransaction:
        """Receive an INVITE that is new."""
        self.receive(message or request(), way)
        transaction = self.servers[-1]
        assert isinstance(transaction, InviteServerTransaction)
        return transaction

    def asked(self, method: str = "OPTIONS", way: Flow | None = None) -> ServerTransaction:
        """Receive another request that is new."""
        self.receive(request(method), way)
        return self.servers[-1]

    def invite(self, way: Flow | None = None) -> InviteClientTransaction:
        return self.transactions.invite(request(), way or flow(), self._on_response, self._on_failure)

    def ask(self, method: str = "OPTIONS", way: Flow | None = None) -> None:
        self.transactions.request(request(method), way or flow(), self._on_response, self._on_failure)

    def answer(self, status: int, to: str = "INVITE", to_tag: str = "callee") -> None:
        """Receive a response to the latest request of ours of this method."""
        asked = self.wire.last(to)
        assert isinstance(asked, Request)
        self.receive(response(asked, status, to_tag))

    def assert_nothing_left(self) -> None:
        assert len(self.transactions) == 0
        assert len(self.time.timers) == 0
        assert not self.transactions._answered
        assert not self.transactions._merge_keys
        assert not self.transactions._by_flow

    def _on_request(self, transaction: ServerTransaction, message: Request) -> None:
        assert transaction.request is message
        self.servers.append(transaction)
        if self._react is not None:
            self._react(transaction)

    def _on_response(self, message: Response) -> None:
        self.responses.append(message.status)

    def _on_failure(self, failure: Failure) -> None:
        self.failures.append((round(self.time.now_s, 3), failure))


def name_of(message: Request | Response) -> str:
    return message.method if isinstance(message, Request) else str(message.status)


def flow(transport: Transport = "udp", local: tuple[str, int] = OURS, remote: tuple[str, int] = THEIRS) -> Flow:
    return Flow(transport, local, remote)


def request(
    method: str = "INVITE",
    *,
    branch: str = "z9hG4bK-1",
    via: str | None = None,
    call_id: str = "call-1",
    cseq: int = 1,
    cseq_method: str | None = None,
    to_tag: str | None = None,
    from_tag: str = "caller",
    extra: str = "",
) -> Request:
    """One of theirs, as it comes off the wire."""
    top = via if via is not None else f"SIP/2.0/UDP 198.51.100.7:5062;rport;branch={branch}"
    text = (
        f"{method} sip:agent@192.0.2.10 SIP/2.0\r\n"
        f"Via: {top}\r\n"
        "Max-Forwards: 70\r\n"
        f"From: <sip:caller@198.51.100.7>;tag={from_tag}\r\n"
        f"To: <sip:agent@192.0.2.10>{'' if to_tag is None else f';tag={to_tag}'}\r\n"
        f"Call-ID: {call_id}\r\n"
        f"CSeq: {cseq} {cseq_method or method}\r\n"
        f"{extra}"
        "Content-Length: 0\r\n\r\n"
    )
    message = parse(text.encode())
    assert isinstance(message, Request)
    return message


def response(to: Request, status: int, to_tag: str = "callee") -> Response:
    """Their answer to a request of ours, as it comes off the wire."""
    headers = to.headers
    to_value = headers.get("To") or ""
    text = (
        f"SIP/2.0 {status} Whatever\r\n"
        + "".join(f"Via: {via}\r\n" for via in headers.all("Via"))
        + f"From: {headers.get('From')}\r\n"
        f"To: {to_value if 'tag=' in to_value or status == 100 else f'{to_value};tag={to_tag}'}\r\n"
        f"Call-ID: {headers.get('Call-ID')}\r\n"
        f"CSeq: {headers.get('CSeq')}\r\n"
        "Content-Length: 0\r\n\r\n"
    )
    message = parse(text.encode())
    assert isinstance(message, Response)
    return message
