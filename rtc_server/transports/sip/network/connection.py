"""One TCP or TLS connection: messages out of a stream of bytes, and what is still waiting to leave."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rtc_server.log import get_logger
from rtc_server.transports.sip.flow import Address, Flow, Transport
from rtc_server.transports.sip.message.framing import KeepAlive, StreamFramer
from rtc_server.transports.sip.message.message import MAX_MESSAGE_BYTES, SipParseError
from rtc_server.transports.sip.network.turns import Turns

READ_BYTES = 4096
"""At once, so that a connection full of messages does not keep audio waiting."""
_PONG = b"\r\n"
_KEEPALIVE_IDLE_S, _KEEPALIVE_EVERY_S, _KEEPALIVE_LOST = 60, 15, 4

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What connections may cost. Those that a call holds are neither idle, nor ever closed to make room."""

    connections: int = 1000
    """In all. For one more the one that is idle the longest has to go, of strangers if there is one."""
    strangers: int = 800
    """Of those that are no trunk's, and have never been used by a call: they cannot take the room of the others."""
    connections_per_address: int = 50
    """That somebody opens to us. A proxy in front of the server needs one or two."""
    message_bytes: int = MAX_MESSAGE_BYTES
    unsent_bytes: int = 262_144
    """That wait for a peer who does not read; with one more its connection is closed."""
    message_s: float = 10.0
    """From the first byte of a message to its last."""
    unsent_s: float = 30.0
    """How long a peer may leave bytes waiting."""
    idle_s: float = 600.0
    """Without a message or keep-alive."""
    silent_s: float = 30.0
    """The same for a connection that somebody has opened to us, and never sent a message on."""
    handshake_s: float = 5.0
    """Of TLS."""
    connect_s: float = 5.0
    """To one address, with the handshake."""


@dataclass(frozen=True, slots=True)
class Upcalls:
    """What a connection tells. None of these raises."""

    on_message: Callable[[bytes, Flow], None]
    on_unreadable: Callable[[SipParseError, Flow], None]
    """The stream cannot be followed any more; the connection closes after what is sent meanwhile."""
    on_lost: Callable[[Connection], None]
    """Once, when a connection that was up is gone."""


class Connection(asyncio.BufferedProtocol):
    """Loop thread only.

    Args:
        remote: who is at the other end, known before the connection is up.
        turns: of all connections. One that has to wait for its turn reads nothing meanwhile.
        verified_name: what the peer's certificate was made out to, where we have asked for that.
        inbound: somebody has opened it to us.
    """

    def __init__(
        self,
        transport: Transport,
        id: int,
        remote: Address,
        upcalls: Upcalls,
        limits: StreamLimits,
        clock: Callable[[], float],
        turns: Turns,
        *,
        inbound: bool,
        verified_name: str | None = None,
    ) -> None:
        self.id = id
        self.remote = remote
        self.inbound = inbound
        self.verified_name = verified_name
        self.flow: Flow | None = None
        """None until it is up."""
        self.holds = 0
        """Calls that use it."""
        self.has_served = False
        """A call has used it."""
        self.close_reason = "peer"
        self._kind = transport
        self._upcalls = upcalls
        self._limits = limits
        self._clock = clock
        self._turns = turns
        self._transport: asyncio.Transport | None = None
        self._framer = StreamFramer(limits.message_bytes)
        # TLS reads on into slices of it, which must not be copies.
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._waits = False
        self._heard = False
        self.last_heard_s = clock()
        self._partial_since_s: float | None = None
        self._unsent_since_s: float | None = None

    @property
    def usable(self) -> bool:
        return self.flow is not None and self._transport is not None and not self._transport.is_closing()

    def send(self, data: bytes) -> None:
        """Queue a message. Raises: OSError where the connection is gone, or is closed now: its peer does not read."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError("the SIP connection is closed")
        if self._transport.get_write_buffer_size() + len(data) > self._limits.unsent_bytes:
            self.drop("peer_does_not_read")
            raise ConnectionError("the SIP peer does not read")
        self._transport.write(data)

    def drop(self, reason: str) -> None:
        """Close at once. What is unsent is lost."""
        if self._transport is not None:
            self.close_reason = reason
            self._transport.abort()

    def close(self, reason: str) -> None:
        """Close when what is unsent has left."""
        if self._transport is not None:
            self.close_reason = reason
            self._transport.close()

    def overdue(self, now: float) -> str | None:
        """Why it should be dropped, if it should. One that is closing may be: its peer need not read the rest."""
        limits = self._limits
        if self._partial_since_s is not None and now - self._partial_since_s > limits.message_s:
            return "slow_message"
        if self._unsent_since_s is not None and now - self._unsent_since_s > limits.unsent_s:
            return "peer_does_not_read"
        if self.holds:
            return None
        patience_s = limits.idle_s if self._heard or not self.inbound else limits.silent_s
        return "idle" if now - self.last_heard_s > patience_s else None

    # ---- asyncio.BufferedProtocol ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        local, remote = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if not local or not remote:  # gone already
            transport.abort()
            return
        self.last_heard_s = self._clock()
        self.flow = Flow(self._kind, (local[0], local[1]), (remote[0], remote[1]), self.id)
        # With no high-water mark, `pause_writing` says that anything at all is left waiting.
        transport.set_write_buffer_limits(high=0)
        _keep_alive(transport.get_extra_info("socket"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._framer.feed(self._buffer[:nbytes])
        if not self._waits:
            self._waits = not self._turns.take(self._read, self._on_failure)
            if self._waits and self._transport is not None:
                self._transport.pause_reading()

    def eof_received(self) -> None:
        """The transport closes itself."""

    def pause_writing(self) -> None:
        self._unsent_since_s = self._clock()

    def resume_writing(self) -> None:
        self._unsent_since_s = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.flow is not None:
            self._upcalls.on_lost(self)

    def _read(self) -> bool:
        """One message. True: there may be another one."""
        item = self._next()
        if item is not None and self.flow is not None:
            self.last_heard_s = self._clock()
            self._partial_since_s = None
            self._receive(item, self.flow)
            return True
        if not self._framer.pending:
            self._partial_since_s = None
        elif self._partial_since_s is None:
            self._partial_since_s = self._clock()
        if self._waits and self._transport is not None:
            self._waits = False
            self._transport.resume_reading()
        return False

    def _on_failure(self) -> None:
        """Where in the stream we are is not known any more."""
        self.drop("internal_error")

    def _next(self) -> bytes | KeepAlive | None:
        if self.flow is None or not self.usable:
            return None
        try:
            return self._framer.next()
        except SipParseError as error:
            self._upcalls.on_unreadable(error, self.flow)
            self.close("unreadable")
            return None

    def _receive(self, item: bytes | KeepAlive, flow: Flow) -> None:
        if isinstance(item, bytes):
            self._heard = True
            self._upcalls.on_message(item, flow)
        elif item is KeepAlive.PING:
            try:
                self.send(_PONG)
            except OSError:
                logger.debug("SIP keep-alive not answered")


def _keep_alive(item: Any) -> None:
    """Let the kernel find out that a peer is gone, and keep the bindings of NATs on the way."""
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_EVERY_S),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_LOST),
    ):
        with contextlib.suppress(OSError):
            item.setsockopt(level, option, value)
