"""A UDP relay in front of a server's one port, with a network of its own for every client that comes through it.

Put the relay's address in the place of the candidates of an answer. STUN, DTLS and SRTP pass as they are; towards the
server each client gets a socket of its own, so that the server tells them apart by address as it would without a relay.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import heapq
import itertools
import socket
import time
from collections.abc import AsyncIterator, Callable

from rtc_server.bench.impairment import Impairment, NetworkPath

Address = tuple[str, int]

MAX_CLIENTS = 256
MAX_UNDER_WAY = 16_384
"""Datagrams that wait for their time, over all clients; what comes on top is lost."""
RETIRED_FOR_S = 5.0
MAX_DATAGRAM_BYTES = 65_536
MAX_READS_AT_ONCE = 64
_PERFECT = Impairment()


class Relay:
    """Not restartable; made by `running_relay`. Loop thread only.

    Bounds: `MAX_CLIENTS` clients, of which the longest silent one makes room for another; `MAX_UNDER_WAY` datagrams.
    Sockets that are full lose datagrams, and what the network answers by ICMP is ignored.

    Args:
        target: address and port of the server, IPv4 or IPv6.
        uplink, downlink: towards the server, and away from it.
        seed: with the client's number it seeds both directions of that client.
    """

    def __init__(self, target: Address, uplink: Impairment, downlink: Impairment, seed: int = 0) -> None:
        self.overflowed = 0
        """Datagrams that found no room."""
        self._target = target
        self._uplink, self._downlink = uplink, downlink
        self._seed = seed
        self._loop = asyncio.get_running_loop()
        self._family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
        self._under_way = _UnderWay(self._loop)
        self._clients: dict[Address, _Client] = {}
        """The longest silent one first."""
        self._numbers = itertools.count()
        self._socket = _open(self._family, ("::1" if self._family == socket.AF_INET6 else "127.0.0.1", 0))
        self._loop.add_reader(self._socket.fileno(), self._readable)
        self.host, self.port = self._socket.getsockname()[:2]
        """Where clients send to."""

    @property
    def clients(self) -> int:
        """How many addresses have come through, up to `MAX_CLIENTS`."""
        return len(self._clients)

    def uplink_loss(self) -> float:
        """Share of the datagrams that clients sent into the present network and that were lost in it, 0..1."""
        sent = sum(client.up.sent for client in self._clients.values())
        lost = sum(client.up.lost + client.up.overflowed for client in self._clients.values())
        return lost / sent if sent else 0.0

    def impair(self, uplink: Impairment, downlink: Impairment) -> None:
        """Another network from now on, for all clients; what is under way arrives as it would have."""
        self._uplink, self._downlink = uplink, downlink
        for client in self._clients.values():
            client.impair(uplink, downlink)

    def stand_still(self, seconds: float, uplink: bool = True, downlink: bool = False) -> None:
        """Nothing arrives for so long, then all at once, in the directions that are named."""
        now = time.monotonic()
        for client in self._clients.values():
            for path, chosen in ((client.up, uplink), (client.down, downlink)):
                if chosen:
                    path.stand_still(now, seconds)

    def rebind(self, host: str | None = None) -> None:
        """Every client reaches the server from a new port, as behind a NAT that forgot it, or with `host` from another
        address, as on another network. What is under way to the server arrives from the old one; what is under way to
        the client, and what the server still sends there, is lost.

        Raises: OSError when this machine has no such address (Linux has all of 127.0.0.0/8).
        """
        for client in self._clients.values():
            client.bind(host)

    def close(self) -> None:
        """Free all sockets; what is under way is lost. May be called twice."""
        self._under_way.close()
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _readable(self) -> None:
        for data, address in _datagrams(self._socket):
            client = self._clients.pop(address, None) or self._admit(address)
            if client is None:
                self.overflowed += 1
                continue
            self._clients[address] = client
            self._forward(data, client.up, client.sender())

    def _admit(self, address: Address) -> _Client | None:
        """None when the system has no socket left."""
        if len(self._clients) >= MAX_CLIENTS:
            self._clients.pop(next(iter(self._clients))).close()
        seed = f"{self._seed} {next(self._numbers)}"

        def returned(data: bytes) -> None:
            came_by = client.address

            def deliver(datagram: bytes) -> None:
                if client.address == came_by:  # else the client is not there any more
                    _send(self._socket, datagram, address)

            self._forward(data, client.down, deliver)

        client = _Client(self._family, self._target, seed, returned)
        client.impair(self._uplink, self._downlink)
        try:
            client.bind()
        except OSError:
            return None
        return client

    def _forward(self, data: bytes, path: NetworkPath, send: Callable[[bytes], None]) -> None:
        for arrival_s in path.arrivals(time.monotonic(), len(data)):
            if not self._under_way.add(arrival_s, data, send):
                self.overflowed += 1


class _Client:
    """One client's network, and the socket by which the server knows it. An old socket is kept until what is under way
    has left by it, for `RETIRED_FOR_S`; it hears nothing."""

    def __init__(self, family: int, target: Address, seed: str, returned: Callable[[bytes], None]) -> None:
        self._family = family
        self._target = target
        self._seed = seed
        self._returned = returned
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._retired: set[socket.socket] = set()
        self.address: Address | None = None
        """By which the server knows the client."""
        self.impair(_PERFECT, _PERFECT)

    def impair(self, uplink: Impairment, downlink: Impairment) -> None:
        self.up = NetworkPath(uplink, f"{self._seed} up")
        self.down = NetworkPath(downlink, f"{self._seed} down")

    def bind(self, host: str | None = None) -> None:
        """A new socket in place of the one before; without `host` the system chooses the address."""
        anywhere = "::" if self._family == socket.AF_INET6 else "0.0.0.0"
        fresh = _open(self._family, (host or anywhere, 0), self._target)
        before = self._retire()
        if before is not None:
            self._retired.add(before)
            self._loop.call_later(RETIRED_FOR_S, self._forget, before)
        self._socket = fresh
        self.address = fresh.getsockname()[:2]
        self._loop.add_reader(fresh.fileno(), self._readable)

    def sender(self) -> Callable[[bytes], None]:
        """By the present address, whatever it is when the datagram arrives."""
        assert self._socket is not None
        return functools.partial(_send, self._socket)

    def close(self) -> None:
        for sock in (self._retire(), *self._retired):
            if sock is not None:
                sock.close()
        self._retired.clear()

    def _retire(self) -> socket.socket | None:
        sock, self._socket, self.address = self._socket, None, None
        if sock is not None:
            self._loop.remove_reader(sock.fileno())
        return sock

    def _forget(self, sock: socket.socket) -> None:
        self._retired.discard(sock)
        sock.close()

    def _readable(self) -> None:
        if self._socket is not None:
            for data, _ in _datagrams(self._socket):
                self._returned(data)


class _UnderWay:
    """Datagrams by the time of their arrival; those of one time in the order in which they were sent."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[float, int, bytes, Callable[[bytes], None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def add(self, arrival_s: float, data: bytes, send: Callable[[bytes], None]) -> bool:
        """False: there is no room."""
        if self._closed or len(self._waiting) >= MAX_UNDER_WAY:
            return False
        heapq.heappush(self._waiting, (arrival_s, next(self._order), data, send))
        if self._waiting[0][0] <= time.monotonic():
            self._deliver()
        elif self._timer is None or self._waiting[0][0] < self._timer.when():
            self._set_timer()
        return True

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, data, send = heapq.heappop(self._waiting)
            send(data)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # The loop's clock is `time.monotonic` too.
        self._timer = self._loop.call_at(self._waiting[0][0], self._deliver) if self._waiting else None


@contextlib.asynccontextmanager
async def running_relay(
    target: Address, uplink: Impairment = _PERFECT, downlink: Impairment = _PERFECT, seed: int = 0
) -> AsyncIterator[Relay]:
    """A relay on a port of its own of the loopback interface, closed on the way out."""
    relay = Relay(target, uplink, downlink, seed)
    try:
        yield relay
    finally:
        relay.close()


def _open(family: int, address: Address, peer: Address | None = None) -> socket.socket:
    """With a `peer`, datagrams of others are not let in."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.bind(address)
        if peer is not None:
            sock.connect(peer)
    except OSError:
        sock.close()
        raise
    return sock


def _datagrams(sock: socket.socket) -> list[tuple[bytes, Address]]:
    """What waits in the socket, up to `MAX_READS_AT_ONCE`; the loop comes back for the rest."""
    read: list[tuple[bytes, Address]] = []
    for _ in range(MAX_READS_AT_ONCE):
        try:
            data, address = sock.recvfrom(MAX_DATAGRAM_BYTES)
        except BlockingIOError:
            break
        except OSError:  # the network's answer to an earlier datagram (ICMP)
            continue
        read.append((data, address[:2]))
    return read


def _send(sock: socket.socket, data: bytes, address: Address | None = None) -> None:
    """A full buffer, a closed socket, nobody there any more: to the network all of that is loss."""
    with contextlib.suppress(OSError):
        if address is None:
            sock.send(data)
        else:
            sock.sendto(data, address)
