"""Free ports for programs that take a pair, or a range, of them."""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 12_000, 30_000
"""Below what the system gives to others by itself."""


def free_ports(count: int, host: str = "127.0.0.1") -> int:
    """The first of so many neighbours that nobody uses at the moment, for UDP and TCP; an even one."""
    for _ in range(200):
        first = random.randrange(_FIRST, _LAST - count, 2)
        if all(_is_free(host, port) for port in range(first, first + count)):
            return first
    raise AssertionError(f"no {count} free ports")


def _is_free(host: str, port: int) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True
