"""One UDP socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Literal

from rtc_server import metrics
from rtc_server.transports.sip.flow import Address, Flow
from rtc_server.transports.sip.network.addresses import WILDCARDS, SourceAddresses
from rtc_server.transports.sip.network.gate import Gate
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.turns import Turns

MAX_DATAGRAM_BYTES = 65_535
BUFFER_BYTES = 1 << 20
STEP_DATAGRAMS = 16
"""Looked at in one step of a turn, which ends with the first that is listened to."""
_KEEP_ALIVE = b"\r\n\0 "
"""Of nothing else are datagrams that keep a NAT's binding: CRLF (RFC 5626 section 4.4.1); some phones send zeros."""


class UdpSocket:
    """Sending never waits: where the buffer is full the datagram is lost, and a transaction sends it again.

    ICMP errors are not asked for: they can be forged, and a transaction that gets no answer ends without them.

    Args:
        id: for its flows.
        turns: of all sockets. What has to wait for its turn waits in the kernel.
        gate: asked about each datagram.
        on_datagram: gets what is more than a keep-alive, and must not raise.
    """

    def __init__(
        self,
        bound: socket.socket,
        id: int,
        sources: SourceAddresses,
        turns: Turns,
        gate: Gate,
        on_datagram: Callable[[bytes, Flow], None],
    ) -> None:
        self.id = id
        self.family = bound.family
        host, port = bound.getsockname()[:2]
        self.place = ListenOn("udp", host, port)
        self._is_wildcard = host in WILDCARDS
        self._socket = bound
        self._sources = sources
        self._turns = turns
        self._waits = False
        self._gate = gate
        self._on_datagram = on_datagram
        self._flood = metrics.DATAGRAMS_DROPPED.labels("sip_flood")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(bound, self._on_readable)
        self._closed = False

    def flow_to(self, remote: Address) -> Flow:
        """Raises: OSError where no route leads there."""
        host = self._sources.towards(remote[0]) if self._is_wildcard else self.place.host
        return Flow("udp", (host, self.place.port), remote, self.id)

    def send(self, data: bytes, remote: Address) -> None:
        """Raises: OSError where the datagram cannot go there: no route, not allowed, too large."""
        if self._closed:
            raise OSError("the UDP socket is closed")
        try:
            self._socket.sendto(data, _socket_address(remote))
        except (BlockingIOError, InterruptedError):
            self._drop("send_buffer_full")
        except OverflowError:
            raise OSError("this is no port") from None

    def close(self) -> None:
        """May be called twice."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _on_readable(self) -> None:
        if not self._waits:
            self._waits = not self._turns.take(self._read, self._on_failure)

    def _on_failure(self) -> None:
        """The next datagram is none the worse for it."""
        self._waits = False

    def _read(self) -> bool:
        """Datagrams up to one that is listened to. True: there may be more."""
        for _ in range(STEP_DATAGRAMS):
            if self._closed:
                return False
            try:
                data, remote = self._socket.recvfrom(MAX_DATAGRAM_BYTES)
            except (BlockingIOError, InterruptedError):
                self._waits = False
                return False
            except OSError:
                # An error that an earlier datagram met. The socket is none the worse for it.
                self._drop("socket_error")
            else:
                if self._receive(data, remote):
                    break
        return True

    def _receive(self, data: bytes, remote: tuple[Any, ...]) -> bool:
        """Whether it was listened to."""
        if not data.strip(_KEEP_ALIVE):
            return False
        if data[0] <= 3:
            return self._drop("stun")  # RFC 7983; nobody here has said that it answers (RFC 5626 section 8)
        if not remote[1]:
            return self._drop("no_port")
        if not self._gate.allow(remote[0], "udp"):
            self._flood.inc()
            return False
        try:
            flow = self.flow_to((remote[0], remote[1]))
        except OSError:
            return self._drop("no_route")
        self._on_datagram(data, flow)
        return True

    def _drop(self, reason: str) -> Literal[False]:
        metrics.DATAGRAMS_DROPPED.labels(reason).inc()
        return False


def bind_udp(place: ListenOn) -> socket.socket:
    """Raises: OSError."""
    bound = socket.socket(socket.AF_INET6 if ":" in place.host else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        bound.setblocking(False)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # beside one for 0.0.0.0
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        bound.bind((place.host, place.port))
    except OSError:
        bound.close()
        raise
    return bound


def _socket_address(address: Address) -> tuple[Any, ...]:
    """A link-local address names its interface, which the kernel wants as a number."""
    if "%" not in address[0]:
        return address
    return socket.getaddrinfo(*address, flags=socket.AI_NUMERICHOST)[0][4]
