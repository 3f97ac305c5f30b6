"""How much each stranger may ask, and how long one waits who has guessed passwords."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

from rtc_server.transports.ratelimit import RateLimit
from rtc_server.transports.sip.trunk.trunks import ip_of

MAX_SOURCES = 4096
"""Remembered at once; the one not heard of for longest is forgotten."""
REQUESTS_PER_S = 20.0
REQUESTS_AT_ONCE = 80.0
FAILURES_FREE = 4
"""Wrong digests in a row before a source has to wait."""
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
"""Not longer: over UDP somebody else may fail in a source's name."""


class Source:
    """One address of strangers, or one IPv6 network of theirs. Times are monotonic seconds."""

    __slots__ = ("_failures", "_limit", "_waits_until_s")

    def __init__(self) -> None:
        self._limit = RateLimit(REQUESTS_PER_S, REQUESTS_AT_ONCE)
        self._failures = 0
        self._waits_until_s: float | None = None

    def allow(self, now: float) -> bool:
        """Whether another request is looked at. It counts in any case."""
        allowed = self._limit.allow(now)
        return allowed and (self._waits_until_s is None or now >= self._waits_until_s)

    def fail(self, now: float) -> float:
        """A wrong digest. Returns how many seconds this source is not listened to."""
        self._failures += 1
        doublings = self._failures - FAILURES_FREE - 1
        if doublings < 0:
            return 0.0
        wait_s = min(FIRST_BACKOFF_S * (1 << min(doublings, 16)), MAX_BACKOFF_S)
        self._waits_until_s = now + wait_s
        return wait_s

    def succeed(self) -> None:
        self._failures = 0
        self._waits_until_s = None


class Sources:
    """The strangers heard of last, at most `MAX_SOURCES` of them."""

    def __init__(self) -> None:
        self._sources: OrderedDict[str, Source] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sources)

    def of(self, address: str) -> Source:
        """`address`: an IPv4 or IPv6 literal."""
        key = source_of(address)
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = Source()
            if len(self._sources) > MAX_SOURCES:
                self._sources.popitem(last=False)
        else:
            self._sources.move_to_end(key)
        return source


def source_of(address: str) -> str:
    """All addresses of an IPv6 /64 are one source, since one host may have them all."""
    found = ip_of(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Address(int(found) >> 64 << 64))
    return str(found)
