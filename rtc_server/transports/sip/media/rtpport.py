"""The UDP ports of phone calls: pairs, an even one for RTP and the odd one above for RTCP (RFC 3550 section 11)."""

from __future__ import annotations

import asyncio
import errno
import math
import random
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from rtc_server import metrics
from rtc_server.errors import ConfigError, NoRtpPort
from rtc_server.log import get_logger
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.media.latch import FormerStream, Stream
from rtc_server.transports.sip.negotiation.agreedmedia import LocalMedia

MAX_DATAGRAM_BYTES = 1500
BATCH_DATAGRAMS = 16
"""Read in one go, so that packets which are due need not wait for a flood."""
CROWDED_S = 0.008
"""Datagrams that follow each other faster are read in batches. A phone's do not, and each is the only one there: to
ask for a second one would cost nearly as much as to read the first."""
MIN_REST_S = 2.0
"""How long a port stays unused behind a call at least: what was on its way then is gone."""
FORMER_S = 30.0
"""How long behind a call its peer may go on sending, where our BYE is lost or it has died: where a port is used again
before that, this stream is not to be taken for the next caller's."""

logger = get_logger(__name__)


class _Unused(NamedTuple):
    since_s: float
    port: int
    """The even one."""
    heard: Stream | None
    """What the call before heard."""


class RtpPorts:
    """Pairs of ports between `first` and `last`, both included. Event loop's thread only.

    The pair that has rested longest is used next, so that in a wide range each rests for long, and a narrow one serves
    as many calls at once as it has pairs.

    Args:
        clock: monotonic seconds.
        order: in which the ports are used. Those which nobody can guess are the best.

    Raises: ConfigError, when there is no pair between them.
    """

    def __init__(
        self,
        first: int,
        last: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        order: random.Random | None = None,
    ) -> None:
        pairs = pairs_between(first, last)
        if not pairs:
            raise ConfigError(
                f"no pair of RTP ports from {first} to {last}", hint="a call takes an even and an odd one"
            )
        (order or random.SystemRandom()).shuffle(pairs)
        self.in_use = 0
        self._clock = clock
        self._pairs = len(pairs)
        self._unused = deque(_Unused(float("-inf"), port, None) for port in pairs)
        """The one that rests longest first."""
        self._taken: set[int] = set()
        """Other programs had them when we tried."""

    def acquire(self, host: str, told_host: str | None = None) -> RtpPort:
        """Bind a pair.

        Args:
            host: the address to listen on, an IPv4 or IPv6 literal.
            told_host: the one that peers are told; `host` by default.

        Raises:
            NoRtpPort: all are in use, by calls of ours or by other programs, or were so a moment ago.
            ConfigError: the host is none of this machine.
        """
        now = self._clock()
        while self._unused and self._unused[0].since_s + MIN_REST_S <= now:
            unused = self._unused.popleft()
            try:
                sockets = _bind_pair(host, unused.port)
            except OSError as error:
                self._unused.append(_Unused(now, unused.port, unused.heard))
                self._refuse(error, host, unused.port)
                continue
            self.in_use += 1
            self._taken.discard(unused.port)
            local = LocalMedia(told_host or host, unused.port, unused.port + 1)
            return RtpPort(local, *sockets, self._release, self._clock, _former(unused, now))
        raise self._none(now)

    def _none(self, now: float) -> NoRtpPort:
        found = f"no RTP port is free: of {self._pairs} pairs {self.in_use} have a call"
        if self._taken:
            found += f", {len(self._taken)} are in use by other programs"
        if resting := len(self._unused) - len(self._taken):
            found += f", {resting} had one until a moment ago"
        wait_s = None
        if self._unused:
            wait_s = max(1, math.ceil(self._unused[0].since_s + MIN_REST_S - now))
        return NoRtpPort(found, hint="widen rtp_ports: a call takes two of them", retry_after_s=wait_s)

    def _refuse(self, error: OSError, host: str, port: int) -> None:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
            hint = "let the server open more files (ulimit -n), or take fewer calls"
            raise NoRtpPort(f"cannot open an RTP port: {error.strerror}", hint=hint) from error
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise ConfigError(f"cannot listen for RTP on {host}: {error.strerror}") from error
        if port not in self._taken:
            logger.warning("rtp port is taken", port=port, why=error.strerror)
        self._taken.add(port)

    def _release(self, port: RtpPort, heard: Stream | None) -> None:
        self.in_use -= 1
        self._unused.append(_Unused(self._clock(), port.local.rtp_port, heard))


def pairs_between(first: int, last: int) -> list[int]:
    """The even port of each pair."""
    return [port for port in range(first + first % 2, last, 2) if 0 < port < 65_535]


class RtpPort:
    """Two bound sockets. Sending never raises, waits or queues: a full buffer loses the datagram. Receiving goes on
    whatever comes; ICMP errors of earlier datagrams are counted."""

    def __init__(
        self,
        local: LocalMedia,
        rtp: socket.socket,
        rtcp: socket.socket,
        on_closed: Callable[[RtpPort, Stream | None], None],
        clock: Callable[[], float],
        former: FormerStream | None = None,
    ) -> None:
        self.local = local
        self.former = former
        """What the call before on these ports heard, if that was not long ago."""
        self._rtp, self._rtcp = rtp, rtcp
        self._on_closed = on_closed
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def listen(self, on_rtp: Callable[[bytes, Address], None], on_rtcp: Callable[[bytes, Address], None]) -> None:
        """Hand on what comes, with its source. What came before stays in the sockets' buffers, as far as they reach."""
        self._loop = loop = asyncio.get_running_loop()
        loop.add_reader(self._rtp, self._read, _Reader(self._rtp, on_rtp))
        loop.add_reader(self._rtcp, self._read, _Reader(self._rtcp, on_rtcp))

    def send_rtp(self, datagram: bytes, destination: Address) -> bool:
        """True where the datagram was given to the network."""
        return self._send(self._rtp, datagram, destination)

    def send_rtcp(self, datagram: bytes, destination: Address) -> bool:
        return self._send(self._rtcp, datagram, destination)

    def close(self, heard: Stream | None = None) -> None:
        """Give the pair back. May be called twice.

        Args:
            heard: the other end's stream, which the next call must not take for its own.
        """
        if self._closed:
            return
        self._closed = True
        for item in (self._rtp, self._rtcp):
            if self._loop is not None:
                self._loop.remove_reader(item)
            item.close()
        self._on_closed(self, heard)

    def _send(self, item: socket.socket, datagram: bytes, destination: Address) -> bool:
        if self._closed:
            return False
        try:
            item.sendto(datagram, destination)
        except (BlockingIOError, InterruptedError):
            _drop("send_buffer_full")
            return False
        except OSError:
            _drop("socket_error")
            return False
        return True

    def _read(self, reader: _Reader) -> None:
        for _ in range(reader.batch(self._clock())):
            if self._closed:
                return
            try:
                datagram, source = reader.socket.recvfrom(MAX_DATAGRAM_BYTES + 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                _drop("socket_error")
                continue
            if len(datagram) > MAX_DATAGRAM_BYTES:
                _drop("oversize")
                continue
            reader.receive(datagram, source[:2])


class _Reader:
    """One of the sockets, and who hears what comes."""

    __slots__ = ("_read_s", "receive", "socket")

    def __init__(self, item: socket.socket, receive: Callable[[bytes, Address], None]) -> None:
        self.socket = item
        self.receive = receive
        self._read_s = float("-inf")

    def batch(self, now: float) -> int:
        """How many datagrams to read, now that there is one."""
        crowded = now - self._read_s < CROWDED_S
        self._read_s = now
        return BATCH_DATAGRAMS if crowded else 1


def _former(unused: _Unused, now: float) -> FormerStream | None:
    until_s = unused.since_s + FORMER_S
    return None if unused.heard is None or until_s <= now else FormerStream(unused.heard, until_s)


def _bind_pair(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Raises: OSError; then nothing is bound."""
    rtp = _bind(host, port)
    try:
        return rtp, _bind(host, port + 1)
    except OSError:
        rtp.close()
        raise


def _bind(host: str, port: int) -> socket.socket:
    item = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        item.setblocking(False)
        item.bind((host, port))
    except OSError:
        item.close()
        raise
    return item


def _drop(reason: str) -> None:
    metrics.DATAGRAMS_DROPPED.labels(reason).inc()
