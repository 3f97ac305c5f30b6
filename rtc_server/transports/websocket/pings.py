"""Numbered pings (RFC 6455 section 5.5.2): an answer tells how far the peer has read, and how long it took. Sans-IO."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

REMEMBERED = 64
"""Pings whose answer still counts: about a minute of them."""


class _Ping(NamedTuple):
    payload: bytes
    sent_s: float
    sent_samples: int


class Answer(NamedTuple):
    sent_s: float
    sent_samples: int
    """Audio that had been sent before the ping: the peer has read all of it."""


class Pings:
    def __init__(self) -> None:
        self._count = 0
        self._waiting: deque[_Ping] = deque(maxlen=REMEMBERED)

    def next(self, now: float, sent_samples: int) -> bytes:
        """The payload of the next ping, which is to be sent behind `sent_samples` of audio."""
        self._count += 1
        ping = _Ping(self._count.to_bytes(8), now, sent_samples)
        self._waiting.append(ping)
        return ping.payload

    def answered(self, payload: bytes) -> Answer | None:
        """A pong came. None when it answers none of the pings: peers may send pongs unasked (section 5.5.3)."""
        ping = next((ping for ping in self._waiting if ping.payload == payload), None)
        if ping is None:
            return None
        while self._waiting.popleft() is not ping:
            pass  # a peer may answer the latest of several pings only
        return Answer(ping.sent_s, ping.sent_samples)
