"""How much each stranger may ask, and all of them together, and how long one waits who has guessed passwords."""

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
ALL_MESSAGES_PER_S = 200.0
ALL_MESSAGES_AT_ONCE = 400.0
"""Of strangers that are read: reading one takes a good part of a millisecond."""
ALL_ANSWERS_PER_S = 200.0
ALL_ANSWERS_AT_ONCE = 400.0
"""To all strangers: over UDP the source of a request may be a victim's address."""
FAILURES_FREE = 4
"""Wrong digests in a row before a source has to wait."""
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
"""Not longer: others may have the same address."""


class Source:
    """One address of strangers, or one IPv6 network of theirs. Times are monotonic seconds."""

    __slots__ = ("_failures", "_messages", "_requests", "_waits_until_s", "trunk")

    def __init__(self) -> None:
        self.trunk: str | None = None
        """The name of the one that has shown a good digest last; None: nobody has."""
        self._messages = RateLimit(MESSAGES_PER_S, MESSAGES_AT_ONCE)
        self._requests = RateLimit(REQUESTS_PER_S, REQUESTS_AT_ONCE)
        self._failures = 0
        self._waits_until_s: float | None = None

    def waits(self, now: float) -> bool:
        """Whether it is not listened to, for its wrong digests."""
        return self._waits_until_s is not None and now < self._waits_until_s

    def allow_message(self, now: float) -> bool:
        """Whether another message is read. It counts."""
        return self._messages.allow(now)

    def allow_request(self, now: float) -> bool:
        """Whether another request is looked at. It counts in any case."""
        return self._requests.allow(now) and not self.waits(now)

    def fail(self, now: float) -> float:
        """A wrong digest. Returns how many seconds this source is not listened to."""
        self._failures += 1
        doublings = self._failures - FAILURES_FREE - 1
        if doublings < 0:
            return 0.0
        wait_s = min(FIRST_BACKOFF_S * (1 << min(doublings, 16)), MAX_BACKOFF_S)
        self._waits_until_s = now + wait_s
        return wait_s

    def succeed(self, trunk: str) -> None:
        """A good digest of this trunk."""
        self.trunk = trunk
        self._failures = 0
        self._waits_until_s = None


class Sources:
    """Those heard of last over one transport: at most `MAX_SOURCES` strangers, and as many who have shown a good
    digest, so that a flood in many names does not make them strangers again.

    Of each transport there is one: over UDP anybody may write any source address, which must not cost those at that
    address what they may do over a connection, nor prove anything for them.
    """

    def __init__(self) -> None:
        self._strangers: OrderedDict[str, Source] = OrderedDict()
        self._proven: OrderedDict[str, Source] = OrderedDict()
        self._messages = RateLimit(ALL_MESSAGES_PER_S, ALL_MESSAGES_AT_ONCE)
        self._answers = RateLimit(ALL_ANSWERS_PER_S, ALL_ANSWERS_AT_ONCE)

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

    def allow_message(self, source: Source, now: float) -> bool:
        """Whether another message of this one is read. It counts for all of them, unless it has proved who it is."""
        return source.allow_message(now) and (source.trunk is not None or self._messages.allow(now))

    def allow_answer(self, now: float) -> bool:
        """Whether another stranger is answered. It counts."""
        return self._answers.allow(now)

    def prove(self, address: str, trunk: str) -> None:
        """A good digest of this trunk has come from there."""
        source = self.of(address)
        source.succeed(trunk)
        key = source_of(address)
        if self._strangers.pop(key, None) is not None:
            _remember(self._proven, key, source)


def _remember(sources: OrderedDict[str, Source], key: str, source: Source) -> Source:
    sources[key] = source
    if len(sources) > MAX_SOURCES:
        sources.popitem(last=False)
    return source
