"""Does somebody who speaks SIP answer there? For ``rtc-server check``; a running server never asks.

An OPTIONS is sent as RFC 3261 section 11 has it, from sockets of its own at the addresses where the server listens. Any
answer shows that messages go both ways; its status says how the other end feels about us.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass

from rtc_server.transports.sip.flow import Address, Flow
from rtc_server.transports.sip.hosts import host_and_port
from rtc_server.transports.sip.message.headers import MAX_FORWARDS, Via
from rtc_server.transports.sip.message.message import Headers, Request, Response, SipParseError, parse
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.network import SipNetwork
from rtc_server.transports.sip.network.resolve import Resolver
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.network.tls import TlsSettings
from rtc_server.transports.sip.network.udp import bind_udp
from rtc_server.transports.sip.timerloop import TimerLoop
from rtc_server.transports.sip.transaction.base import Failure, ServerTransaction
from rtc_server.transports.sip.transaction.layer import Transactions
from rtc_server.transports.sip.transaction.timers import Intervals, Timers

TIMEOUT_S = 4.0
"""With the lookup of the name and the connection. A datagram is sent three times in that."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    reason: str
    time_ms: float
    """From the request, on a connection that is up, to its answer."""
    remote: Address
    """Who has answered."""
    seen_as: Address | None
    """Where the request came from, as the other end saw it (RFC 3581): behind a NAT our address outside."""
    contact: str | None
    """Where requests to it should go, as it says."""
    server: str | None
    """What software it says it is."""

    @property
    def takes_calls(self) -> bool:
        """False for a server that says it is failing, or going down. Many good ones have no 200 for OPTIONS."""
        return self.status < 500 or self.status in (501, 505)


async def ask_options(
    target: Target,
    listen: Iterable[ListenOn],
    *,
    tls: TlsSettings | None = None,
    advertise: str | None = None,
    resolver: Resolver | None = None,
    timeout_s: float = TIMEOUT_S,
    intervals: Intervals | None = None,
) -> Answer:
    """Ask `target` what it can do.

    Args:
        listen: where the server is spoken to. Whom none of its UDP places leads to over UDP is not asked either.
        advertise: as `SipNetwork` has it; shows in From, Via and Contact.

    Raises: OSError where there is no way there, TimeoutError where there is one and no answer comes by it,
        ConfigError for `tls`.
    """
    question = _Question(_free_ports(listen), tls, advertise, resolver, intervals)
    try:
        async with asyncio.timeout(timeout_s):
            return await question.ask(target)
    except TimeoutError:
        if question.connected:
            raise
        raise ConnectionError(f"no connection within {timeout_s:g} s") from None
    finally:
        await question.close()


class _Question:
    """One request, and the sockets and timers that it needs."""

    def __init__(
        self,
        places: list[ListenOn],
        tls: TlsSettings | None,
        advertise: str | None,
        resolver: Resolver | None,
        intervals: Intervals | None,
    ) -> None:
        timers = Timers(time.monotonic)
        self._timer_loop = TimerLoop(timers)
        self._network = SipNetwork(
            places, self._on_message, self._on_closed, tls=tls, advertise=advertise, resolver=resolver
        )
        self._transactions = Transactions(
            self._network.send,
            timers,
            _ignore_request,
            _ignore_ack,
            intervals=intervals,
            sent_by=self._network.sent_by,
        )
        self.connected = False
        """There is a way to the target; over UDP there always is."""
        self._answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    async def ask(self, target: Target) -> Answer:
        self._timer_loop.start()
        await self._network.start()
        flow = await self._network.connect(target)
        self.connected = True
        asked_s = time.monotonic()
        request = _options(target, host_and_port(*self._network.contact(flow)))
        self._transactions.request(request, flow, self._on_response, self._on_failure)
        response = await self._answer
        return Answer(
            response.status,
            response.reason,
            (time.monotonic() - asked_s) * 1000,
            flow.remote,
            _seen_as(response),
            response.headers.get("Contact"),
            response.headers.get("Server") or response.headers.get("User-Agent"),
        )

    async def close(self) -> None:
        self._transactions.close()
        self._timer_loop.stop()
        await self._network.close()

    def _on_message(self, data: bytes, flow: Flow) -> None:
        with contextlib.suppress(SipParseError):  # as good as no answer
            self._transactions.receive(parse(data), flow)

    def _on_closed(self, flow: Flow) -> None:
        self._transactions.on_transport_error(flow)

    def _on_response(self, response: Response) -> None:
        if response.status >= 200 and not self._answer.done():
            self._answer.set_result(response)

    def _on_failure(self, failure: Failure) -> None:
        if not self._answer.done():
            timed_out = failure is Failure.TIMEOUT
            self._answer.set_exception(TimeoutError() if timed_out else ConnectionError("the request was not taken"))


def _options(target: Target, ourselves: str) -> Request:
    port = "" if target.port is None else f":{target.port}"
    host = f"[{target.host}]" if ":" in target.host else target.host
    transport = "" if target.transport == "udp" else f";transport={target.transport}"
    headers = Headers()
    headers.add("Max-Forwards", MAX_FORWARDS)
    headers.add("From", f"<sip:check@{ourselves}>;tag={secrets.token_hex(8)}")
    headers.add("To", f"<sip:{host}{port}>")
    headers.add("Call-ID", secrets.token_hex(16))
    headers.add("CSeq", "1 OPTIONS")
    headers.add("Contact", f"<sip:check@{ourselves}{transport}>")
    headers.add("Accept", "application/sdp")
    return Request("OPTIONS", f"sip:{host}{port}{transport}", headers)


def _seen_as(response: Response) -> Address | None:
    try:
        params = Via.parse(response.headers.get("Via") or "").params
        host, port = params.get("received"), int(params.get("rport") or "")
    except ValueError:
        return None
    return None if host is None else (host.strip("[]"), port)


def _free_ports(listen: Iterable[ListenOn]) -> list[ListenOn]:
    """One UDP port at each address that is listened on over UDP, and that this machine has."""
    hosts = dict.fromkeys(place.host for place in listen if place.transport == "udp")
    return [place for place in (ListenOn("udp", host, 0) for host in hosts) if _is_there(place)]


def _is_there(place: ListenOn) -> bool:
    try:
        bind_udp(place).close()
    except OSError:
        return False
    return True


def _ignore_request(transaction: ServerTransaction, _request: Request) -> None:
    transaction.drop()


def _ignore_ack(_ack: Request, _flow: Flow) -> None:
    """Of a call, and there is none."""
