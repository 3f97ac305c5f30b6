"""What the network does to a call's packets on their way up. Sans-IO, seeded."""

from __future__ import annotations

import random
from collections.abc import Sequence


class Uplink:
    """Random loss with probability `loss`, and exactly one packet lost at each of `drop_at_s` after `begin`.

    Before `begin` everything passes, so that a call is set up undisturbed.
    """

    def __init__(self, loss: float = 0.0, drop_at_s: Sequence[float] = (), seed: int = 0) -> None:
        self.dropped = 0
        self._loss = loss
        self._due_s = sorted(drop_at_s, reverse=True)
        self._begun_s: float | None = None
        self._random = random.Random(seed)

    def begin(self, now: float) -> None:
        self._begun_s = now

    def loses(self, now: float) -> bool:
        """To be asked once per packet."""
        if self._begun_s is None:
            return False
        lost = bool(self._loss) and self._random.random() < self._loss
        if self._due_s and now - self._begun_s >= self._due_s[-1]:
            self._due_s.pop()
            lost = True
        self.dropped += lost
        return lost
