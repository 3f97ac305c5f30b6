"""How many positions of a prompt fit into a given time. Sans-IO, without torch.

The time of a chunk is not proportional to its length: reading the weights is a fixed price, and the arithmetic comes on
top. So the time is remembered for each power of two. A size that was not seen yet takes no longer than a larger one,
and no longer than a smaller one in proportion.
"""

from __future__ import annotations

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FORGET = 0.9
"""A slow chunk counts nine tenths the next time, so that one stall does not slow all prompts down for ever."""
PATIENCE_S = 2.0
"""So long may a prompt wait for a gap that is wide enough; then it takes the smallest step whatever it costs."""


class ChunkPace:
    """Remembers what chunks took."""

    def __init__(self) -> None:
        self._worst_s: dict[int, float] = {}

    def took(self, positions: int, seconds: float) -> None:
        size = self._size_of(positions)
        self._worst_s[size] = max(seconds, FORGET * self._worst_s.get(size, 0.0))

    def refused(self) -> None:
        """A whole gap went by in which nothing fitted. What was remembered may be a stall: it counts less."""
        self._worst_s = {size: FORGET * seconds for size, seconds in self._worst_s.items()}

    def expected_s(self, size: int) -> float:
        """Of a chunk of this many positions, one of `SIZES`."""
        smaller = [known for known in self._worst_s if known < size]
        larger = [seconds for known, seconds in self._worst_s.items() if known > size]
        at_least_s = max((self._worst_s[known] for known in smaller), default=0.0)
        if size in self._worst_s:
            return max(at_least_s, self._worst_s[size])
        if smaller:
            larger.append(self._worst_s[max(smaller)] * size / max(smaller))
        return max(at_least_s, min(larger, default=0.0))

    def fitting(self, budget_s: float, most: int) -> int:
        """The largest chunk that should be done in time; 0 if not even the smallest is. Never more than `most`."""
        return min(most, max((size for size in SIZES if self.expected_s(size) <= budget_s), default=0))

    @staticmethod
    def _size_of(positions: int) -> int:
        return next((size for size in SIZES if size >= positions), SIZES[-1])
