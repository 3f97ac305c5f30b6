"""The keys of a telephone as events in an RTP stream of their own payload type (RFC 4733); also called DTMF.

An event is said again and again while a key is down, each time with how long it has been so far, and its end three
times. All packets of it have the timestamp of its beginning. Sans-IO: time is passed in, packets are given back.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from rtc_server.errors import DigitsPending

DIGITS = "0123456789*#ABCD"
"""By event code (RFC 4733 section 3.2). What is above them, such as the hook flash (16), is no digit."""
MAX_DURATION = 0xFFFF
"""In units of the clock. A longer event goes on in another segment, which begins where this one ends."""
SLOT_MS = 20
ENDS_SENT = 3
MAX_QUEUED = 64
"""Digits that wait to be sent, about 13 s."""
SILENCE_ENDS_S = 0.2
"""An event of which nothing more is heard for so long has ended."""
_REMEMBERED = 8
_VOLUME = 10
"""-10 dBm0, what phones send."""
_END = 0x80
_LAYOUT = struct.Struct("!BBH")


@dataclass(frozen=True, slots=True)
class TelephoneEvent:
    """One payload."""

    code: int
    end: bool
    duration: int
    """So far, in units of the clock."""
    volume: int = _VOLUME
    """Power below 0 dBm0, in dB: 0 to 63."""

    @classmethod
    def parse(cls, payload: bytes) -> TelephoneEvent | None:
        """None for what is no single event."""
        if len(payload) != _LAYOUT.size:
            return None
        code, flags, duration = _LAYOUT.unpack(payload)
        return cls(code, bool(flags & _END), duration, flags & 0x3F)

    def to_bytes(self) -> bytes:
        return _LAYOUT.pack(self.code, self.end * _END | self.volume, self.duration)


class DigitReceiver:
    """Tells each digit of a peer once: when its end is heard, or where that was lost, once it has clearly ended.

    Packets of one event are known by their timestamp. The marker tells nothing: some peers never set it.
    """

    def __init__(self) -> None:
        self._running: tuple[int, int, float] | None = None
        """(code, timestamp of the newest segment, when last heard) of an event without an end so far."""
        self._told: deque[tuple[int, int]] = deque(maxlen=_REMEMBERED)
        """(code, timestamp) of events that have ended, of which copies may still come."""
        self._ended: deque[str] = deque()
        """At most two: one packet may tell that one event has ended and that another has."""

    def receive(self, now: float, payload: bytes, timestamp: int) -> str | None:
        """One packet, in the order of arrival.

        Args:
            now: monotonic seconds.
            timestamp: of the packet, which is that of the event's beginning.

        Returns: a digit that has ended.
        """
        event = TelephoneEvent.parse(payload)
        if event is not None and event.code < len(DIGITS) and not self._is_past(event.code, timestamp, now):
            self._hear(event, timestamp, now)
        return self._next_ended()

    def poll(self, now: float) -> str | None:
        """To be called every few packets' time. Returns: a digit that has ended; there may be more."""
        if self._running is not None and now - self._running[2] >= SILENCE_ENDS_S:
            self._finish()
        return self._next_ended()

    def _hear(self, event: TelephoneEvent, timestamp: int, now: float) -> None:
        if self._running is not None:
            code, began, _ = self._running
            if timestamp != began and (code, began) != (event.code, _segment_before(timestamp)):
                self._finish()
            elif code != event.code:
                return  # the first packet said what this event is
        self._running = event.code, timestamp, now
        if event.end:
            self._finish()

    def _is_past(self, code: int, timestamp: int, now: float) -> bool:
        """A copy, or late: of an event that has ended, of a later segment of it, or from before the one that runs."""
        if any(told == timestamp for _, told in self._told):
            return True
        if (code, _segment_before(timestamp)) in self._told:
            self._told.append((code, timestamp))
            return True
        if self._running is None:
            return False
        _, began, heard_s = self._running
        return _is_before(timestamp, began) and now - heard_s < SILENCE_ENDS_S

    def _finish(self) -> None:
        assert self._running is not None
        code, timestamp, _ = self._running
        self._running = None
        self._told.append((code, timestamp))
        self._ended.append(DIGITS[code])

    def _next_ended(self) -> str | None:
        return self._ended.popleft() if self._ended else None


class EventPacket(NamedTuple):
    """What goes into one packet of the payload type that was agreed on for events."""

    payload: bytes
    timestamp: int
    marker: bool


class DigitSender:
    """Digits one after the other, each as the packets of one event; asked once in every slot of 20 ms.

    Args:
        clock_hz: of the events, which counts their durations.
        digit_ms: how long each is, in whole slots.
        pause_ms: between two of them, in whole slots.

    Raises: ValueError, for a digit that does not fit into one segment.
    """

    def __init__(self, clock_hz: int, digit_ms: int = 100, pause_ms: int = 100) -> None:
        self._slot_units = clock_hz * SLOT_MS // 1000
        self._digit_slots = max(1, digit_ms // SLOT_MS)
        if self._digit_slots * self._slot_units > MAX_DURATION:
            raise ValueError(f"a digit of {digit_ms} ms is too long at {clock_hz} Hz")
        self._sent_slots = self._digit_slots + ENDS_SENT - 1
        self._cycle_slots = max(self._sent_slots, self._digit_slots + pause_ms // SLOT_MS)
        self._waiting: deque[int] = deque()
        self._code: int | None = None
        self._start = 0
        self._slot = 0
        """Of the digit's cycle: while it is sent, and the pause behind it."""

    @property
    def active(self) -> bool:
        """A digit is being sent, or waits."""
        return bool(self._waiting) or (self._code is not None and self._slot < self._sent_slots)

    def queue(self, digits: str) -> None:
        """Send these behind what is queued already: 0 to 9, * and #, A to D.

        Raises: ValueError, for what is no key of a phone; DigitsPending, for more than `MAX_QUEUED`. Then nothing is
            queued.
        """
        keys = digits.upper()
        for key in keys:
            if key not in DIGITS:
                raise ValueError(f"{key!r} is no key of a phone: 0-9, *, #, A-D")
        if len(self._waiting) + len(keys) > MAX_QUEUED:
            raise DigitsPending(
                f"more than {MAX_QUEUED} digits would wait to be sent", hint="send these later: five go out in a second"
            )
        self._waiting.extend(DIGITS.index(key) for key in keys)

    def next(self, timestamp: int) -> EventPacket | None:
        """What to send in the place of audio in this slot; None where audio goes on.

        Args:
            timestamp: of the slot, on the wire.
        """
        if self._slot == self._cycle_slots:
            self._code, self._slot = None, 0
        if self._code is None:
            if not self._waiting:
                return None
            self._code, self._start = self._waiting.popleft(), timestamp
        self._slot += 1
        if self._slot > self._sent_slots:
            return None
        lasted = min(self._slot, self._digit_slots)
        event = TelephoneEvent(self._code, lasted == self._digit_slots, lasted * self._slot_units)
        return EventPacket(event.to_bytes(), self._start, marker=self._slot == 1)


def _segment_before(timestamp: int) -> int:
    """Where a segment began that has gone over into one from `timestamp` on (RFC 4733 section 2.5.1.3)."""
    return (timestamp - MAX_DURATION) & 0xFFFFFFFF


def _is_before(timestamp: int, other: int) -> bool:
    return (timestamp - other) & 0xFFFFFFFF >= 1 << 31
