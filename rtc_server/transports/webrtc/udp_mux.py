"""One UDP port for all calls: checks go by our ufrag, responses to our own checks by their transaction id, everything
else by remote address (RFC 7983).

Two sockets, one per address family, share the tables. Nothing from a stranger gets further than this file: a datagram
is either an authenticated check or response, or comes from an address that one of these has proved, or is dropped and
counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from aioice import stun

from rtc_server import metrics
from rtc_server.errors import ConfigError
from rtc_server.log import get_logger
from rtc_server.transports.ratelimit import RateLimit
from rtc_server.transports.webrtc.ice import OWNER_SILENT_S, Address, IceAgent, Path, Released
from rtc_server.transports.webrtc.ice_controlling import (
    ALL_UNPROVEN_CHECKS_BURST,
    ALL_UNPROVEN_CHECKS_PER_S,
    ControllingAgent,
)

MAX_DATAGRAM_BYTES = 2048
RECEIVE_BUFFER_BYTES = 4 << 20
SEND_BUFFER_BYTES = 1 << 20
BATCH_DATAGRAMS = 16
"""Read in one go; about 1.5 ms of work when all of them carry audio."""
BIND_TRIES = 16
"""How often a port that is free on IPv4 only is given back for another one, when any port will do."""

_BINDING_REQUEST, _BINDING_RESPONSE, _BINDING_ERROR = 0x0001, 0x0101, 0x0111
_TRANSACTION_ID = slice(8, stun.HEADER_LENGTH)
_STUN_HEADER = struct.Struct("!HHI")

logger = get_logger(__name__)


class UdpMux:
    """The tables and the demultiplexer. Everything runs on the event loop's thread.

    `by_ufrag` has one entry per call, two while an ICE restart is pending; `by_address` at most `ice.MAX_PATHS` per
    call; `by_transaction` at most `ice_controlling.MAX_TRANSACTIONS` for a call that we control. `remove` frees them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.by_ufrag: dict[str, IceAgent] = {}
        self.by_address: dict[Address, IceAgent] = {}
        self.by_transaction: dict[bytes, ControllingAgent] = {}
        """Kept by the agents."""
        self.unproven_checks = RateLimit(ALL_UNPROVEN_CHECKS_PER_S, ALL_UNPROVEN_CHECKS_BURST)
        """Taken from by the agents."""
        self.dropped: Counter[str] = Counter()
        self.port = 0
        self.families: tuple[str, ...] = ()
        """``IPv4``, ``IPv6``: what the port could be bound on."""
        self._clock = clock
        self._sockets: list[MuxSocket] = []

    def add(self, agent: IceAgent) -> None:
        """Answer checks for `agent`; once more after it has got new credentials."""
        for ufrag in agent.ufrags:
            self.by_ufrag[ufrag] = agent

    def release(self, agent: IceAgent, released: Released) -> None:
        """Forget what a call has given up."""
        for ufrag in released.ufrags:
            if self.by_ufrag.get(ufrag) is agent:
                del self.by_ufrag[ufrag]
        for address in released.addresses:
            if self.by_address.get(address) is agent:
                del self.by_address[address]

    def remove(self, agent: IceAgent) -> None:
        """Forget a call, and stop its checks. May be called twice."""
        agent.close()
        self.release(agent, Released(list(agent.paths), list(agent.ufrags)))

    def path_to(self, address: Address) -> Path | None:
        """A way to an IP literal, or None where the port is not bound for its address family."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        item = next((item for item in self._sockets if item.family == family), None)
        return None if item is None else Path(address, address, item)

    def close(self) -> None:
        for item in self._sockets:
            item.close()
        self._sockets.clear()

    def datagram_received(self, source: MuxSocket, data: bytes, remote: tuple[Any, ...]) -> None:
        """One datagram from `remote`, a socket address of either family. Never raises on what a peer sent."""
        if not data:
            return self.drop("empty")
        if len(data) > MAX_DATAGRAM_BYTES:
            return self.drop("oversize")
        if data[0] <= 3:
            return self._on_stun(source, data, remote)
        address = (remote[0], remote[1])
        agent = self.by_address.get(address)
        if agent is None:
            return self.drop("stranger")
        return agent.receive(data, address, self._clock())

    def drop(self, reason: str) -> None:
        """Count a datagram that goes no further; `reason` is one of a closed set."""
        self.dropped[reason] += 1
        metrics.DATAGRAMS_DROPPED.labels(reason).inc()

    def attach(self, item: MuxSocket) -> None:
        self._sockets.append(item)

    def _on_stun(self, source: MuxSocket, data: bytes, remote: tuple[Any, ...]) -> None:
        kind = _binding_kind(data)
        if kind == _BINDING_REQUEST:
            return self._on_check(source, data, remote)
        if kind in (_BINDING_RESPONSE, _BINDING_ERROR):
            return self._on_response(source, data, remote)
        return self.drop("bad_stun")

    def _on_check(self, source: MuxSocket, data: bytes, remote: tuple[Any, ...]) -> None:
        if data[_TRANSACTION_ID] in self.by_transaction:
            # An offer gave us our own address as its peer's: two calls would keep each other up for ever.
            return self.drop("own_check")
        request = _parse(data)
        if request is None or "FINGERPRINT" not in request.attributes:
            return self.drop("bad_stun")  # RFC 8445 section 7.1 asks for FINGERPRINT in every check
        agent = self.by_ufrag.get(str(request.attributes.get("USERNAME", "")).partition(":")[0])
        if agent is None:
            return self.drop("unknown_ufrag")
        if not agent.authenticates(request):
            return self.drop("bad_integrity")
        address = (remote[0], remote[1])
        if agent.is_replayed(request, address):
            # Before the limit on checks, which is the peer's own.
            return self.drop("replayed_check")
        now = self._clock()
        if not agent.may_check(now):
            return self.drop("check_flood")
        if self._belongs_to_another(address, agent, now):
            return self.drop("address_taken")
        response, released = agent.answer(request, Path(address, remote, source), now)
        self._prove(address, agent, released)
        return source.send(bytes(response), remote)

    def _on_response(self, source: MuxSocket, data: bytes, remote: tuple[Any, ...]) -> None:
        agent = self.by_transaction.get(data[_TRANSACTION_ID])
        if agent is None:
            return self.drop("unknown_transaction")
        response = _parse(data)
        if response is None:
            return self.drop("bad_stun")
        address = (remote[0], remote[1])
        if not agent.accepts(response, address):
            return self.drop("bad_integrity")
        now = self._clock()
        if self._belongs_to_another(address, agent, now):
            return self.drop("address_taken")
        return self._prove(address, agent, agent.on_response(response, Path(address, remote, source), now))

    def _belongs_to_another(self, address: Address, agent: IceAgent, now: float) -> bool:
        owner = self.by_address.get(address)
        return owner is not None and owner is not agent and not _gone_quiet(owner, now)

    def _prove(self, address: Address, agent: IceAgent, released: Released) -> None:
        """Datagrams from there are the call's, if it has taken the address."""
        self.release(agent, released)
        if address in agent.paths:
            self.by_address[address] = agent


class MuxSocket:
    """One bound socket. Sending never raises, never waits and never queues: a full buffer loses the datagram.

    Read in batches: asyncio's own endpoint goes once around the event loop for each datagram, which for forty calls is
    two thousand times a second.
    """

    def __init__(self, mux: UdpMux, bound: socket.socket) -> None:
        self.family = bound.family
        self._mux = mux
        self._socket = bound
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(bound, self._on_readable)
        self._closed = False

    def send(self, data: bytes, destination: tuple[Any, ...]) -> None:
        if self._closed:
            return
        try:
            self._socket.sendto(data, destination)
        except (BlockingIOError, InterruptedError):
            self._mux.drop("send_buffer_full")
        except OSError:
            self._mux.drop("socket_error")

    def close(self) -> None:
        """May be called twice."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _on_readable(self) -> None:
        """At most `BATCH_DATAGRAMS`, so that packets which are due need not wait for a flood."""
        for _ in range(BATCH_DATAGRAMS):
            if self._closed:
                return
            try:
                data, remote = self._socket.recvfrom(MAX_DATAGRAM_BYTES + 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                # An ICMP error of an earlier datagram, which was lost, as datagrams may be.
                self._mux.drop("socket_error")
                continue
            self._mux.datagram_received(self, data, remote)


async def open_mux(port: int, clock: Callable[[], float] = time.monotonic) -> UdpMux:
    """Bind `port` on all interfaces, IPv4 and IPv6; one family may be missing. Port 0 takes any free port.

    Raises: ConfigError when the port cannot be bound.
    """
    sockets = bind_all_interfaces(port)
    mux = UdpMux(clock)
    mux.port = sockets[0].getsockname()[1]
    mux.families = tuple("IPv6" if item.family == socket.AF_INET6 else "IPv4" for item in sockets)
    for item in sockets:
        mux.attach(MuxSocket(mux, item))
    logger.info("udp port open", port=mux.port, families=mux.families)
    return mux


def bind_all_interfaces(port: int) -> list[socket.socket]:
    """One socket per address family that this machine has. Raises: ConfigError."""
    failure: OSError | None = None
    for _ in range(BIND_TRIES if port == 0 else 1):
        sockets: list[socket.socket] = []
        wanted = port
        try:
            for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
                item = _open_socket(family)
                if item is None:
                    continue
                sockets.append(item)
                item.bind((host, wanted))
                wanted = item.getsockname()[1]
        except OSError as error:
            failure = error
            for item in sockets:
                item.close()
            continue
        if sockets:
            return sockets
    why = failure.strerror if failure is not None else "no IPv4 and no IPv6"
    raise ConfigError(f"cannot bind UDP port {port}: {why}", hint="choose another one with --udp-port")


def _open_socket(family: socket.AddressFamily) -> socket.socket | None:
    """A socket with large buffers, or None where this machine does not have the address family."""
    try:
        item = socket.socket(family, socket.SOCK_DGRAM)
    except OSError:
        return None
    item.setblocking(False)
    if family == socket.AF_INET6:
        item.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if not _has_ipv6():
            item.close()
            return None
    for option, size in ((socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES), (socket.SO_SNDBUF, SEND_BUFFER_BYTES)):
        with contextlib.suppress(OSError):
            item.setsockopt(socket.SOL_SOCKET, option, size)
    return item


def _has_ipv6() -> bool:
    """False where the kernel knows IPv6 but has no address of it, not even ::1."""
    probe = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with contextlib.closing(probe):
        try:
            probe.bind(("::", 0))
        except OSError:
            return False
    return True


def _binding_kind(data: bytes) -> int | None:
    """The message type of what looks like STUN, or None."""
    if len(data) < stun.HEADER_LENGTH:
        return None
    kind, length, cookie = _STUN_HEADER.unpack_from(data)
    return int(kind) if cookie == stun.COOKIE and length + stun.HEADER_LENGTH == len(data) else None


def _parse(data: bytes) -> stun.Message | None:
    """None for malformed attributes, and for a wrong FINGERPRINT."""
    try:
        return stun.parse_message(data)
    except (ValueError, struct.error, IndexError):
        return None


def _gone_quiet(agent: IceAgent, now: float) -> bool:
    return agent.last_check_s is None or now - agent.last_check_s > OWNER_SILENT_S
