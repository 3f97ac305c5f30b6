"""The numbered record of a conversation's events, kept as far as a caller who comes back needs it. Sans-IO.

Every event gets the next number, over all legs of the session. What happened in the conversation is kept, bounded in
count and bytes, the oldest goes first; what was true only of a moment or of one leg (statistics, progress, the state of
the connection, answers to a message) is not.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import NamedTuple

from rtc_server.events import (
    ErrorEvent,
    InputTranscript,
    Numbered,
    ResponseDelta,
    ServerEvent,
    SessionCreated,
    SessionDegraded,
    SessionEnded,
    SessionEnding,
    SessionPrefill,
    SessionResumed,
    SessionStats,
    encode,
)

KEPT_EVENTS = 512
"""More than a model that never stops talking says in 30 s."""
KEPT_BYTES = 64 * 1024
COUNTED_EVENTS = 4096
"""Events that are gone are still counted as missed, so many of them."""

_PASSING = (
    SessionCreated,
    SessionPrefill,
    SessionStats,
    SessionDegraded,
    SessionResumed,
    SessionEnding,
    SessionEnded,
    ErrorEvent,
)


class Replay(NamedTuple):
    events: list[Numbered]
    missed: int
    """Events that belonged between them, and are gone."""


class _Mark(NamedTuple):
    seq: int
    at_s: float


class _Kept(NamedTuple):
    numbered: Numbered
    at_s: float
    size_bytes: int


class EventLog:
    """Numbers events from 1 and keeps the newest `max_events`, `max_bytes` of encoded text at most."""

    def __init__(self, max_events: int = KEPT_EVENTS, max_bytes: int = KEPT_BYTES) -> None:
        self.opening: Numbered | None = None
        """`session.created`: what each new leg hears first."""
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._seq = 0
        self._kept: deque[_Kept] = deque()
        self._kept_bytes = 0
        self._gone: deque[_Mark] = deque(maxlen=COUNTED_EVENTS)

    def append(self, event: ServerEvent, now: float) -> Numbered:
        """Give `event` its number. `now` is monotonic seconds."""
        self._seq += 1
        numbered = Numbered(self._seq, event)
        if isinstance(event, SessionCreated):
            self.opening = numbered
        if _is_kept(event):
            kept = _Kept(numbered, now, len(encode(numbered).encode()))
            self._kept.append(kept)
            self._kept_bytes += kept.size_bytes
            while len(self._kept) > self._max_events or self._kept_bytes > self._max_bytes:
                self._drop_oldest()
        return numbered

    def last_before(self, time_s: float) -> int:
        """Number of the last kept event that was given before `time_s`; 0 when there was none."""
        marks = [*self._gone, *(_Mark(kept.numbered.seq, kept.at_s) for kept in self._kept)]
        return max((mark.seq for mark in marks if mark.at_s < time_s), default=0)

    def replay(self, after_seq: int) -> Replay:
        """The kept events behind number `after_seq`. Playout times are left out: the stream that they name is gone."""
        events = [_without_time(kept.numbered) for kept in self._kept if kept.numbered.seq > after_seq]
        return Replay(events, missed=sum(mark.seq > after_seq for mark in self._gone))

    def _drop_oldest(self) -> None:
        oldest = self._kept.popleft()
        self._kept_bytes -= oldest.size_bytes
        self._gone.append(_Mark(oldest.numbered.seq, oldest.at_s))


def _is_kept(event: ServerEvent) -> bool:
    if isinstance(event, InputTranscript):
        return event.final
    return not isinstance(event, _PASSING)


def _without_time(numbered: Numbered) -> Numbered:
    event = numbered.event
    if isinstance(event, ResponseDelta):
        return Numbered(numbered.seq, dataclasses.replace(event, rtp_timestamp=None))
    return numbered
