"""WebSockets of aiohttp as the wires of `transports.websocket`: upgrade, receiving, closing, and their limits.

An endpoint hands `serve` its conversation, a coroutine function of one wire. It may raise any `RtcServerError`: the
peer then hears of it in the endpoint's own words, and once more in the close frame (RFC 6455 section 7.4), whose code
says whether trying again makes sense. A conversation that has made its leg ends in `AiohttpWire.listen`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import WSMsgType, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol

from rtc_server import metrics
from rtc_server.errors import BadRequest, RtcServerError, TooManyHalfOpen
from rtc_server.log import get_logger
from rtc_server.transports.websocket.closing import goodbye
from rtc_server.transports.websocket.wire import ConnectionLost

log = get_logger(__name__)

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Longer ones end the call with 1009. It is 20 s of float32 audio at 48 kHz."""
UNSENT_BYTES = 4096
"""What may wait in the kernel for its first sending. More waits with us, where it can still be dropped."""
CLOSE_S = 2.0
"""How long a peer may take to read what is on its way and to answer our close frame."""
_FROM_PEER = (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING, WSMsgType.PONG)
MAX_REASON_BYTES = 123
"""RFC 6455 section 5.5: a control frame carries 125 bytes, two of which are the code."""


@dataclass(slots=True)
class SocketLimits:
    """What sockets may take up that no session stands behind: those of an endpoint that waits to be told what a client
    wants."""

    open_s: float = 10.0
    """How long after the upgrade a peer may take to say what it wants."""
    max_unopened: int = 64
    _unopened: int = field(default=0, init=False)

    @contextlib.contextmanager
    def unopened(self) -> Iterator[None]:
        """Around the time in which a peer has yet to say what it wants. Raises: TooManyHalfOpen."""
        if self._unopened >= self.max_unopened:
            message = f"{self._unopened} sockets wait for their first message already"
            raise TooManyHalfOpen(message, hint="try again in a few seconds")
        self._unopened += 1
        try:
            yield
        finally:
            self._unopened -= 1


class Listener(Protocol):
    """Who hears what comes of a socket beside its messages: the leg."""

    def alive(self) -> None:
        """The peer sent something: a message, a ping or a pong."""

    def pong(self, payload: bytes) -> None:
        """The peer answered a ping."""

    def lost(self, reason: str = "peer_closed") -> None:
        """The socket is closed, or closing."""

    async def wait_closed(self) -> None: ...


class AiohttpWire:
    """A `transports.websocket.wire.Wire` over an upgraded request. Event loop's thread only; one task receives."""

    def __init__(
        self,
        response: web.WebSocketResponse,
        writer: AbstractStreamWriter,
        protocol: BaseProtocol,
        transport: asyncio.Transport,
    ) -> None:
        self._response = response
        self._writer = writer
        self._protocol = protocol
        self._transport = transport
        self._draining: asyncio.Task[None] | None = None
        self._receiving: asyncio.Timeout | None = None
        """Set while `receive` waits; by it `close` ends the waiting."""
        self._received = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._listener: Listener | None = None

    # ---- transports.websocket.wire.Wire ------------------------------------------------------------------------------

    async def send(self, message: str | bytes) -> None:
        """Returns when the kernel has taken all of it. Raises: ConnectionLost."""
        with _losing():
            if isinstance(message, str):
                await self._response.send_str(message)
            else:
                await self._response.send_bytes(message)
            await self._drained()

    async def ping(self, payload: bytes) -> None:
        """Raises: ConnectionLost."""
        with _losing():
            await self._response.ping(payload)
            await self._drained()

    async def close(self, code: int, reason: str) -> None:
        """Say goodbye and wait for the peer's own, at most `CLOSE_S`. From the first call on, `receive` returns None;
        every call returns when the socket is closed."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(code, reason), name="socket-close")
        await asyncio.shield(self._closing)

    # ---- the endpoint's side -----------------------------------------------------------------------------------------

    async def receive(self) -> str | bytes | None:
        """The next message; None once the socket is closed or closing, whoever began it. Pings are answered here."""
        while self._closing is None:
            try:
                async with asyncio.timeout(None) as self._receiving:
                    message = await self._response.receive()
            except TimeoutError:  # of `_close`, or the kernel's: a peer that acknowledges nothing
                return None
            finally:
                self._receiving = None
                self._received.set()
            if self._listener is not None and message.type in _FROM_PEER:
                self._listener.alive()
            match message.type:
                case WSMsgType.TEXT | WSMsgType.BINARY:
                    data: str | bytes = message.data
                    return data
                case WSMsgType.PING:
                    with contextlib.suppress(ConnectionError):
                        await self._response.pong(message.data)
                        await self._drained()
                case WSMsgType.PONG:
                    if self._listener is not None:
                        self._listener.pong(bytes(message.data))
                case _:
                    await self.close(1000, "")
            await asyncio.sleep(0)  # a socket gives what it has without a pause: others want their turn
        return None

    async def listen(
        self, leg: Listener, hear: Callable[[str | bytes], Awaitable[None]], first: str | bytes = b""
    ) -> None:
        """Hand `hear` every message until the socket is closed, before them `first`, which came when there was no leg
        yet. Then `leg` is told, and waited for. Raises: what `hear` raises, a defect of ours."""
        self._listener = leg
        try:
            if first:
                await hear(first)
            while (message := await self.receive()) is not None:
                await hear(message)
                await asyncio.sleep(0)  # as above
        except ConnectionLost:
            pass
        except Exception:
            leg.lost("internal_error")
            raise
        finally:
            leg.lost()
            await leg.wait_closed()

    async def refuse(self, error: RtcServerError, words: str | bytes) -> None:
        """Tell `error` in the endpoint's own `words`, and close with its code and its sentence."""
        metrics.OFFERS_REJECTED.labels(error.code).inc()
        with contextlib.suppress(ConnectionLost, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self.send(words)
        await self.close(error.close_code, str(error))

    async def _close(self, code: int, reason: str) -> None:
        if self._receiving is not None:
            # aiohttp hangs up at once where a `receive` is interrupted by its `close`: the peer would lose our goodbye.
            self._received.clear()
            self._receiving.reschedule(asyncio.get_running_loop().time())
            await self._received.wait()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._response.close(code=code, message=_fitting(reason), drain=False)
                await self._drained()
        except (TimeoutError, ConnectionError):
            self._transport.abort()  # or what the peer does not read would keep the descriptor

    async def _drained(self) -> None:
        """Wait until the kernel has taken what was written. In a task of its own: with aiohttp all wait for one future,
        and whoever is cancelled would cancel it for the others."""
        if self._draining is None or self._draining.done():
            if not self._protocol.writing_paused:
                return
            self._draining = asyncio.get_running_loop().create_task(self._writer.drain(), name="socket-drain")
        await asyncio.shield(self._draining)


@contextlib.contextmanager
def _losing() -> Iterator[None]:
    try:
        yield
    except ConnectionError:
        raise ConnectionLost("the peer is gone") from None


SOCKETS = web.AppKey("sockets", set[AiohttpWire])
"""Those that are open."""


async def serve(
    request: web.Request,
    words: Callable[[RtcServerError], str | bytes],
    converse: Callable[[AiohttpWire], Awaitable[None]],
) -> web.WebSocketResponse:
    """Upgrade a request and hold one conversation over it.

    Args:
        words: how the endpoint says that it refuses.
        converse: returns when the conversation is over; what it raises is told to the peer.

    Raises: BadRequest, when the request cannot be upgraded.
    """
    response, wire = await _upgrade(request)
    request.app[SOCKETS].add(wire)
    try:
        await converse(wire)
    except RtcServerError as error:
        await wire.refuse(error, words(error))
    except ConnectionLost:
        pass
    except Exception:
        log.exception("socket failed", path=request.path)
        mistake = RtcServerError("the server made a mistake", hint="its log says more")
        await wire.refuse(mistake, words(mistake))
    finally:
        await wire.close(1000, "")
        request.app[SOCKETS].discard(wire)
    return response


async def close_sockets(app: web.Application) -> None:
    """Signal handler of the end: a socket that no session closes, for it has none, would hold up the server."""
    await asyncio.gather(*(wire.close(*goodbye("server_stopping")) for wire in app[SOCKETS]))


async def _upgrade(request: web.Request) -> tuple[web.WebSocketResponse, AiohttpWire]:
    """Raises: BadRequest."""
    response = web.WebSocketResponse(
        autoping=False,  # pongs are the leg's
        autoclose=False,
        compress=False,  # Opus cannot be compressed, and a small message could inflate to a large one
        max_msg_size=MAX_MESSAGE_BYTES + 1,  # aiohttp refuses what is as long as its limit
        writer_limit=sys.maxsize,  # the wire waits by itself
    )
    if not response.can_prepare(request):
        raise BadRequest(f"{request.path} is a WebSocket", hint="connect with ws:// or wss:// (RFC 6455, version 13)")
    try:
        writer = await response.prepare(request)
    except ConnectionError:
        raise BadRequest("the connection was closed before its upgrade", hint="connect again") from None
    transport = request.transport
    if transport is None:
        raise BadRequest("the connection was closed at its upgrade", hint="connect again")
    transport.set_write_buffer_limits(high=1, low=0)  # paused as long as anything is left; TLS would take 0 for always
    _keep_little_unsent(transport.get_extra_info("socket"))
    return response, AiohttpWire(response, writer, request.protocol, transport)


def _keep_little_unsent(tcp: socket.socket) -> None:
    """What is in flight may be as much as the path takes; only what waits for it is kept short."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    else:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * UNSENT_BYTES)


def _fitting(reason: str) -> bytes:
    """As much of a sentence as a close frame takes."""
    return reason.encode(errors="replace")[:MAX_REASON_BYTES].decode(errors="ignore").encode()
