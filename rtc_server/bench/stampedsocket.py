"""A UDP socket that says when each datagram arrived: the load client's own scheduling is not the server's lateness."""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

MAX_DATAGRAM_BYTES = 2048
_MAX_ANCILLARY_BYTES = 64
_SO_TIMESTAMPNS = 35  # Linux, asm-generic/socket.h: not among the constants of the socket module
_TIMESPEC = struct.Struct("@ll")

Address = tuple[str, int]


class Arrival(NamedTuple):
    data: bytes
    source: Address
    at_s: float
    """As the kernel stamped it where it does so (Linux), else when it was read; on the scale of `time.monotonic()`."""


class StampedSocket:
    """Bound to a free port, never blocking.

    Args:
        host: an address of this machine, an IPv4 or IPv6 literal.
    """

    def __init__(self, host: str) -> None:
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.bind((host, 0))
        except OSError:
            self._socket.close()
            raise
        self._stamped = _ask_for_stamps(self._socket)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    def send(self, data: bytes, address: Address) -> None:
        """Raises: OSError: a full buffer, or the network's answer to an earlier datagram."""
        self._socket.sendto(data, address)

    def receive(self) -> Arrival:
        """The next datagram. Raises: OSError; BlockingIOError where there is none."""
        if not self._stamped:
            data, source = self._socket.recvfrom(MAX_DATAGRAM_BYTES)
            return Arrival(data, (source[0], source[1]), time.monotonic())
        data, ancillary, _, source = self._socket.recvmsg(MAX_DATAGRAM_BYTES, _MAX_ANCILLARY_BYTES)
        return Arrival(data, (source[0], source[1]), _stamp_s(ancillary))

    def close(self) -> None:
        """May be called twice."""
        self._socket.close()


def _ask_for_stamps(sock: socket.socket) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def _stamp_s(ancillary: Sequence[tuple[int, int, bytes]]) -> float:
    """The kernel's stamp (wall clock) on the scale of `time.monotonic()`."""
    now_s = time.monotonic()
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(value) >= _TIMESPEC.size:
            seconds: int
            nanoseconds: int
            seconds, nanoseconds = _TIMESPEC.unpack_from(value)
            return now_s - max(0.0, time.time() - seconds - nanoseconds * 1e-9)
    return now_s
