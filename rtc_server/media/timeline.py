"""Where on one endless time line the packets of a stream belong, whatever their sender does to its counters."""

from __future__ import annotations

import enum
from collections import deque
from typing import NamedTuple

from rtc_server.media.frames import SAMPLE_RATE, SAMPLES_PER_MS
from rtc_server.media.jitterconfig import JitterConfig
from rtc_server.media.rtp import signed_difference

_REMEMBERED = 128


class Arrival(enum.Enum):
    FITS = "fits"
    """Belongs to the time line as known."""
    MOVED = "moved"
    """Timestamp or sequence number have jumped: the time line is laid anew, the sound goes on."""
    NEW_SOURCE = "new source"
    """Moved, and another SSRC: the decoder begins anew as well."""
    DUPLICATE = "duplicate"
    STRAGGLER = "straggler"
    """Of the source before the present one."""


class Placed(NamedTuple):
    arrival: Arrival
    position: int
    """Of the packet's first sample, at 24 kHz; 0 is the first packet's."""


class Timeline:
    """Maps RTP timestamps of `clock_hz` to positions. Sequence numbers and timestamps may wrap.

    A jump (new SSRC, timestamp back while the sequence goes on, far too early, too late for a while) moves the mapping
    so that the packet which showed it lands where its arrival puts it. The read pointer of the buffer never moves for
    it.
    """

    def __init__(self, clock_hz: int, config: JitterConfig) -> None:
        self._clock_hz = clock_hz
        self._config = config
        self._ssrc: int | None = None
        self._previous_ssrc: int | None = None
        self._changed_at = 0.0
        self._timestamp = 0
        self._sequence_number = 0
        self._late_since: float | None = None
        self._other_clock = False
        """The next packet is the first one whose timestamp counts at this rate."""
        self._recent: deque[tuple[int, int]] = deque()
        self._seen: set[tuple[int, int]] = set()
        self.newest_position = 0
        """Position of the newest packet."""

    def change_clock(self, clock_hz: int) -> None:
        """Timestamps count at another rate from the next packet on, which lands where its arrival puts it."""
        self._other_clock = clock_hz != self._clock_hz and self._ssrc is not None
        self._clock_hz = clock_hz

    def locate(self, timestamp: int, ssrc: int) -> int | None:
        """Where a packet with `timestamp` would lie; None for another source. Moves and remembers nothing."""
        return self.newest_position + self._samples_since_newest(timestamp) if ssrc == self._ssrc else None

    def place(
        self,
        now: float,
        sequence_number: int,
        timestamp: int,
        ssrc: int,
        duration: int,
        usual_delay: float | None,
        decoded_end: int,
    ) -> Placed:
        """Find a packet's position.

        `usual_delay` is the least delay of late (samples; None before the first packet), `decoded_end` the position
        behind the newest decoded sample: a time line that is laid anew begins there or later.
        """
        new_source = ssrc != self._ssrc and self._ssrc is not None
        if new_source and ssrc == self._previous_ssrc and now < self._changed_at + self._config.straggler_s:
            return Placed(Arrival.STRAGGLER, 0)
        if self._ssrc is None:
            self._timestamp, self._sequence_number = timestamp, sequence_number
        elif new_source:
            self._previous_ssrc, self._changed_at = self._ssrc, now
            self._seen.clear()
            self._recent.clear()
        elif (sequence_number, timestamp) in self._seen:
            return Placed(Arrival.DUPLICATE, 0)
        self._ssrc = ssrc
        self._remember((sequence_number, timestamp))

        step = self._samples_since_newest(timestamp)
        position = self.newest_position + step
        excess = now * SAMPLE_RATE - (position + duration) - usual_delay if usual_delay is not None else 0.0
        moved = new_source or self._contradicts(sequence_number, step)
        moved = moved or (step > 0 and self._off_in_time(now, excess))
        other_clock, self._other_clock = self._other_clock, False
        moved = moved or other_clock
        if moved:
            self._late_since = None
            position = int(now * SAMPLE_RATE - duration - (usual_delay or 0.0))
            if position < decoded_end + 1.5 * duration:
                position = decoded_end
        if moved or step > 0:
            self.newest_position = position
            self._timestamp, self._sequence_number = timestamp, sequence_number
        if new_source:
            return Placed(Arrival.NEW_SOURCE, position)
        return Placed(Arrival.MOVED if moved and not other_clock else Arrival.FITS, position)

    def _remember(self, key: tuple[int, int]) -> None:
        if len(self._recent) >= _REMEMBERED:
            self._seen.discard(self._recent.popleft())
        self._recent.append(key)
        self._seen.add(key)

    def _samples_since_newest(self, timestamp: int) -> int:
        return signed_difference(timestamp, self._timestamp, 1 << 32) * SAMPLE_RATE // self._clock_hz

    def _contradicts(self, sequence_number: int, step: int) -> bool:
        """The sequence number says later, the timestamp says not; or one sequence number, two timestamps."""
        ahead = signed_difference(sequence_number, self._sequence_number, 1 << 16)
        return (ahead > 0 and step <= 0) or (ahead == 0 and step != 0)

    def _off_in_time(self, now: float, excess: float) -> bool:
        """Whether the newest packet is impossibly early, or late for a while: a late burst is over in no time."""
        if excess < -self._config.early_jump_ms * SAMPLES_PER_MS:
            return True
        if excess <= self._config.max_delay_ms * SAMPLES_PER_MS:
            self._late_since = None
            return False
        if self._late_since is None:
            self._late_since = now
        return now - self._late_since > self._config.late_jump_s
