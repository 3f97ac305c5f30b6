"""How much of something a peer may do: a token bucket. Sans-IO."""

from __future__ import annotations


class RateLimit:
    """Allows `per_second` on average and `burst` at once."""

    __slots__ = ("_burst", "_last_s", "_per_second", "_tokens")

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._last_s: float | None = None

    def allow(self, now: float) -> bool:
        """Take one token, if there is one. `now` is monotonic seconds."""
        if not self.ready(now):
            return False
        self.take(1.0)
        return True

    def ready(self, now: float, tokens: float = 1.0) -> bool:
        """Whether there are so many tokens. Takes none."""
        return self.left(now) >= tokens

    def take(self, tokens: float) -> None:
        """Take tokens for what has been done: more than there are is a debt."""
        self._tokens -= tokens

    def left(self, now: float) -> float:
        """How many tokens there are; below 0, how many are owed. Takes none."""
        if self._last_s is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._last_s) * self._per_second)
        self._last_s = now
        return self._tokens
