"""How long the packets of a stream are under way, and how much delay it takes to catch most of them.

Delays are in samples between a packet's end on the sender's time line and its arrival. Both clocks have unknown
beginnings, so a delay means nothing by itself; what counts is its distance from the least one of the last seconds.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS
from rtc_server.media.jitterconfig import JitterConfig

_HISTORY = 512
_BATCH_S = 0.005
_KNOWN_AFTER = 10


class DelayEstimator:
    """Learns from arrivals; says which delay is wanted. Bounded: the last 512 packets at most."""

    def __init__(self, config: JitterConfig) -> None:
        self._config = config
        self._delays = np.zeros(_HISTORY)
        self._arrivals = np.zeros(_HISTORY)
        self._learned = 0
        self._lowest: deque[tuple[float, float]] = deque()
        """(arrival, delay) with growing delays: the first one is the least of the window."""
        self._batch = 0
        self._beginning = True
        """All that has come so far came at once."""
        self._last_arrival = -math.inf

    @property
    def known(self) -> bool:
        return bool(self._lowest)

    @property
    def minimum(self) -> float:
        """Least delay of the last 10 s; 0 before the first packet."""
        return self._lowest[0][1] if self._lowest else 0.0

    def learn(self, now: float, delay: float, duration: int) -> None:
        """A packet of `duration` samples arrived.

        Of a stream that begins with several packets at once only the newest counts: a phone that took a moment to
        begin sends so what it owes, and the path has delayed none of it.
        """
        lowest = self._lowest
        while lowest and lowest[-1][1] >= delay:
            lowest.pop()
        lowest.append((now, delay))
        oldest = now - self._config.minimum_window_s
        while lowest[0][0] < oldest:
            lowest.popleft()
        self._batch = self._batch + 1 if now - self._last_arrival < _BATCH_S else 0
        self._beginning = self._beginning and (self._batch > 0 or not self._learned)
        if self._beginning:
            self._batch = self._learned = 0
        self._last_arrival = now
        if self._batch * duration < self._config.standstill_ms * SAMPLES_PER_MS:
            at = self._learned % _HISTORY
            self._delays[at] = delay
            self._arrivals[at] = now
            self._learned += 1

    def wanted(self) -> float:
        """The delay that the quantile asks for, from `least_slack_ms` to `max_delay_ms` above the minimum."""
        config, low = self._config, self.minimum
        delays = self._recent()
        wanted = low
        if delays.size >= _KNOWN_AFTER:
            rank = math.ceil(config.quantile * delays.size) - 1
            wanted = float(np.partition(delays, rank)[rank])
        elif delays.size:
            wanted = float(delays.max()) + (config.first_slack_ms - config.least_slack_ms) * SAMPLES_PER_MS
        wanted = max(wanted, low + config.least_slack_ms * SAMPLES_PER_MS)
        return min(wanted, low + config.max_delay_ms * SAMPLES_PER_MS)

    def _recent(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        count = min(self._learned, _HISTORY)
        fresh = self._arrivals[:count] >= self._last_arrival - self._config.window_s
        return self._delays[:count][fresh]


class TickPhase:
    """Takes the scatter out of the moments at which ticks are served; it is no jitter of the path."""

    _GAIN = 0.1

    def __init__(self) -> None:
        self._last: float | None = None

    def smooth(self, now: float) -> float:
        """`now` as a position in samples, moved towards where the regular 80 ms grid of ticks puts it."""
        position = now * SAMPLE_RATE
        if self._last is not None:
            half = FRAME_SAMPLES / 2
            deviation = (position - self._last + half) % FRAME_SAMPLES - half
            position -= deviation * (1 - self._GAIN)
        self._last = position
        return position
