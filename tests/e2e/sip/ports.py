"""Ports for programs that take a pair of them, or a range."""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 12_000, 26_000
_FIRST_OF_RANGES, _LAST_OF_RANGES = 26_000, 32_000
"""Both below what the system gives away by itself."""


def free_ports(count: int, host: str = "127.0.0.1") -> int:
    """The first of so many neighbours that nobody uses at the moment, for UDP and TCP; an even one."""
    for _ in range(200):
        first = random.randrange(_FIRST, _LAST - count, 2)
        if all(_is_free(host, port) for port in range(first, first + count)):
            return first
    raise AssertionError(f"no {count} free ports")


def range_of_ports(count: int) -> int:
    """The first of so many, for a program that passes over those in use; none of `free_ports`."""
    return random.randrange(_FIRST_OF_RANGES, _LAST_OF_RANGES - count, 2)


def _is_free(host: str, port: int) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True
