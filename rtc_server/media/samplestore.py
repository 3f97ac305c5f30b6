"""Samples in a row, each with a position: appended at the end, read anywhere, forgotten at the front."""

from __future__ import annotations

import numpy as np

from rtc_server.media.frames import FloatSamples


class SampleStore:
    """A window on an endless row of samples, over memory that is allocated once.

    Positions count from the beginning of the row and only grow. At most `capacity` samples are kept: appending more
    forgets the oldest. `first <= position < end` can be read.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # Twice the room, so that the kept samples lie in one piece and move only once in `capacity` appended ones.
        self._memory = np.zeros(2 * capacity, np.float32)
        self._at = 0
        self.first = 0
        self.end = 0

    def __len__(self) -> int:
        return self.end - self.first

    def append(self, samples: FloatSamples) -> int:
        """Add samples at the end. Returns how many old ones had to be forgotten for them."""
        size = samples.size
        overflow = max(0, self.end - self.first + size - self.capacity)
        if size > self.capacity:
            self.restart(self.end + size - self.capacity)
            self.append(samples[-self.capacity :])
            return overflow
        if overflow:
            self.forget_before(self.first + overflow)
        kept = self.end - self.first
        start = self._at + kept
        if start + size > 2 * self.capacity:
            self._memory[:kept] = self._memory[self._at : start]
            self._at, start = 0, kept
        self._memory[start : start + size] = samples
        self.end += size
        return overflow

    def read(self, position: int, n_samples: int) -> FloatSamples:
        """A view of the samples from `position` on, as far as there are any; valid until the next change."""
        begin = max(position, self.first)
        end = min(position + n_samples, self.end)
        if end <= begin:
            return self._memory[:0]
        offset = self._at - self.first
        return self._memory[begin + offset : end + offset]

    def forget_before(self, position: int) -> None:
        """Samples before `position` are not needed any more."""
        gone = min(position, self.end) - self.first
        if gone > 0:
            self._at += gone
            self.first += gone

    def restart(self, position: int) -> None:
        """Forget everything; the next sample appended is the one at `position`."""
        self._at = 0
        self.first = self.end = position

    def cut(self, position: int, removed: int, joint: FloatSamples) -> None:
        """Take out `removed` samples at `position` and overwrite what follows there with `joint`.

        Everything before moves up: `first` grows by `removed`, `end` stays.
        """
        offset = self._at - self.first
        source = self._memory[self._at : position + offset].copy()
        self.first += removed
        self._at += removed
        self._memory[self._at : self._at + source.size] = source
        start = position + removed + offset
        self._memory[start : start + joint.size] = joint
