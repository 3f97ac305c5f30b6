"""Delay that need not be: what stayed in a queue of sound, at its lowest, over a while.

Sound that lies there all the time only makes everything behind it late. It is cut out where nobody hears it: in a quiet
place, or one pitch period at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from rtc_server.media.frames import SAMPLES_PER_MS, FloatSamples
from rtc_server.media.samplestore import SampleStore
from rtc_server.media.timescale import Place, SpeechLevel, pitch_place, quiet_place

_LEAST_TRIM = 2 * SAMPLES_PER_MS
_LARGE = 120 * SAMPLES_PER_MS
"""A surplus that only a stall leaves: it does not wait for a good place."""
_CUTS_ABOVE = (0, 40 * SAMPLES_PER_MS, _LARGE)
"""Surplus from which a frame brings a first cut, a second, a third."""
_PITCH_WINDOW = 100 * SAMPLES_PER_MS
"""How much of the queue, from the newest sample back, is searched for a pitch: that costs about 0.3 ms."""


class Watch(NamedTuple):
    """The surplus is what stayed in the queue at its lowest in `window_s`, less what is kept on purpose."""

    window_s: float
    kept_ms: int = 0


@dataclass(frozen=True, slots=True)
class SurplusConfig:
    watches: tuple[Watch, ...]
    """The one that finds the most counts."""
    patience_s: float
    """How long a surplus waits for a place where its cut cannot be heard."""
    voiced_above_ms: int = 0
    """Up to so much it waits for a quiet place, however long that takes."""
    voiced_cut_ms: int = 15
    """Most that one splice takes out where it is not quiet."""
    similarity: float = 0.9
    """Least correlation of two pitch periods that may be joined, while there is patience."""


class Surplus:
    """Watches one queue, frame by frame, and finds what is to be cut out of it. One thread.

    `now` is in seconds on any clock that only goes forward. Bound: one figure a frame, of the longest window.
    """

    def __init__(self, config: SurplusConfig) -> None:
        self._config = config
        self._longest_s = max(watch.window_s for watch in config.watches)
        self._level = SpeechLevel()
        self._spare: deque[tuple[float, float]] = deque()
        """(time, samples that were not needed then), growing: each is the least of all since then."""
        self._watched_since: float | None = None
        self._pressing_since: float | None = None

    def hear(self, frame: FloatSamples) -> None:
        """Learn from a frame of the sound, at 12.5 a second, what counts as quiet."""
        self._level.update(frame)

    def watch(self, now: float, spare: float) -> None:
        """At `now` there are `spare` samples more in the queue than are needed."""
        if self._watched_since is None:
            self._watched_since = now
        while self._spare and self._spare[-1][1] >= spare:
            self._spare.pop()
        self._spare.append((now, spare))
        while self._spare[0][0] < now - self._longest_s:
            self._spare.popleft()

    def watch_anew(self) -> None:
        """Nothing that was seen so far says anything about what comes."""
        self._spare.clear()
        self._watched_since = self._pressing_since = None

    def lower(self, n_samples: int) -> None:
        """So many samples were taken out of the queue."""
        self._spare = deque((at, max(0.0, spare - n_samples)) for at, spare in self._spare)

    def samples(self, now: float) -> int:
        """The surplus; 0 or less where there is none, or it was not watched for long enough."""
        if self._watched_since is None:
            return 0
        watched_s = now - self._watched_since
        known = (self._lowest(now, watch) for watch in self._config.watches if watched_s >= watch.window_s)
        return max(known, default=0)

    def _lowest(self, now: float, watch: Watch) -> int:
        lowest = next((spare for at, spare in self._spare if at >= now - watch.window_s), 0.0)
        return int(lowest) - watch.kept_ms * SAMPLES_PER_MS

    def cuts(self, now: float, queue: SampleStore) -> Iterator[Place]:
        """Up to three places to cut out of the queue now, counted from its first sample.

        Each is to be cut, and `lower` to be told, before the next one is asked for.
        """
        for above in _CUTS_ABOVE:
            surplus = self.samples(now)
            if surplus < _LEAST_TRIM:
                self._pressing_since = None
                return
            if surplus < above:
                return
            place = self._place(now, queue.read(queue.first, len(queue)), surplus)
            if place is None:
                return
            yield place

    def _place(self, now: float, samples: FloatSamples, surplus: int) -> Place | None:
        config = self._config
        if surplus <= config.voiced_above_ms * SAMPLES_PER_MS:
            self._pressing_since = None
        elif self._pressing_since is None:
            self._pressing_since = now
        place = quiet_place(samples, surplus, self._level.quiet)
        if place is not None or self._pressing_since is None:
            return place
        impatient = surplus > _LARGE or now - self._pressing_since > config.patience_s
        newest = samples[-_PITCH_WINDOW:]
        longest = min(surplus, config.voiced_cut_ms * SAMPLES_PER_MS)
        place = pitch_place(newest, longest, -1.0 if impatient else config.similarity)
        return Place(samples.size - newest.size + place.position, place.length) if place is not None else None
