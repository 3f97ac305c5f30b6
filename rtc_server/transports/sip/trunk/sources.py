"""How much each stranger may ask, and how long one waits who has guessed passwords."""

from __future__ import annotations

from collections import OrderedDict

from rtc_server.transports.ratelimit import RateLimit
from rtc_server.transports.sip.hosts import source_of

MAX_SOURCES = 4096
"""Remembered at once; the one not heard of for longest is forgotten."""
MESSAGES_PER_S = 50.0
MESSAGES_AT_ONCE = 200.0
"""Which are read at all. A call that comes with a digest takes four before it is one."""
REQUESTS_PER_S = 20.0
REQUESTS_AT_ONCE = 80.0
FAILURES_FREE = 4
"""Wrong digests in a row before a source has to wait."""
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
"""Not longer: over UDP somebody else may fail in a source's name."""


class Source:
    """One address of strangers, or one IPv6 network of theirs. Times are monotonic seconds."""

    __slots__ = ("_failures", "_messages", "_requests", "_waits_until_s")

    def __init__(self) -> None:
        self._messages = RateLimit(MESSAGES_PER_S, MESSAGES_AT_ONCE)
        self._requests = RateLimit(REQUESTS_PER_S, REQUESTS_AT_ONCE)
        self._failures = 0
        self._waits_until_s: float | None = None

    def hears(self, now: float) -> bool:
        """Whether another message is read."""
        return self._messages.allow(now)

    def allow(self, now: float) -> bool:
        """Whether another request is looked at. It counts in any case."""
        allowed = self._requests.allow(now)
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
    """Those heard of last: at most `MAX_SOURCES` strangers, and as many who have shown a good digest, so that a flood
    in many names does not make them strangers again."""

    def __init__(self) -> None:
        self._strangers: OrderedDict[str, Source] = OrderedDict()
        self._proven: OrderedDict[str, Source] = OrderedDict()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._proven)

    def of(self, address: str) -> Source:
        """`address`: an IPv4 or IPv6 literal."""
        key = source_of(address)
        for known in (self._proven, self._strangers):
            if (source := known.get(key)) is not None:
                known.move_to_end(key)
                return source
        return _remember(self._strangers, key, Source())

    def prove(self, address: str) -> None:
        """A good digest has come from there."""
        source = self.of(address)
        source.succeed()
        key = source_of(address)
        if self._strangers.pop(key, None) is not None:
            _remember(self._proven, key, source)

    def is_proven(self, address: str) -> bool:
        return source_of(address) in self._proven


def _remember(sources: OrderedDict[str, Source], key: str, source: Source) -> Source:
    sources[key] = source
    if len(sources) > MAX_SOURCES:
        sources.popitem(last=False)
    return source
