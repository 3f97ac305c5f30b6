"""What a network does to packets on their way. Sans-IO and seeded: the clock is handed in, and the same seed loses the
same packets whatever else is set.

`NetworkPath` is one direction of a whole network; `Uplink` only loses packets, some of them at chosen moments.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rtc_server.errors import ConfigError

Shape = Literal["fifo", "iid", "uniform", "walk"]
SHAPES: tuple[Shape, ...] = ("fifo", "iid", "uniform", "walk")

_P95_OF_EXPONENTIAL = -math.log(0.05)
_P95_OF_HALF_NORMAL = 1.96
_WALK_MEMORY = 0.95
"""Correlation of one packet's delay with the next one's."""
_DUPLICATE_AFTER_S = 0.003
_BUCKET_S = 0.020
"""A rate limit lets so much time's worth of data go at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Impairment:
    """One direction of a network; the default is a perfect one.

    Raises: ConfigError when a value is out of range.
    """

    loss: float = 0.0
    """Mean share of packets lost, 0..1."""
    burst: float = 1.0
    """Mean length of a run of lost packets (Gilbert-Elliott with a bad state that loses all); 1: independent losses."""
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    """95th percentile of the delay on top of `delay_ms`; for the shape ``uniform`` the greatest."""
    shape: Shape = "fifo"
    """``fifo``: exponential, order kept as in a queue. ``iid``: the same, each packet for itself, so that they overtake
    each other. ``uniform``: even, overtaking too. ``walk``: half of a normal, each packet much like the last, in order.
    """
    reorder: float = 0.0
    """Share of packets held back by `reorder_ms`, so that others overtake them."""
    reorder_ms: float = 30.0
    duplicate: float = 0.0
    """Share of packets that come twice, 3 ms apart."""
    rate_bps: float | None = None
    """Of the bottleneck; packets wait in front of it. None: no limit."""
    queue_bytes: int = 16_384
    """Room in front of the bottleneck; what does not fit is lost."""

    def __post_init__(self) -> None:
        for name in ("loss", "reorder", "duplicate"):
            _check(0 <= getattr(self, name) < 1, name, getattr(self, name), "from 0 to below 1")
        for name in ("delay_ms", "jitter_ms", "reorder_ms"):
            _check(0 <= getattr(self, name) <= 10_000, name, getattr(self, name), "0..10000")
        _check(1 <= self.burst <= 1000, "burst", self.burst, "1..1000")
        _check(self.loss * (self.burst + 1) <= self.burst, "burst", self.burst, "longer at this loss")
        _check(self.shape in SHAPES, "shape", self.shape, f"one of {', '.join(SHAPES)}")
        _check(self.rate_bps is None or self.rate_bps >= 1000, "rate_bps", self.rate_bps, "1000 or more")
        _check(0 <= self.queue_bytes <= 1 << 24, "queue_bytes", self.queue_bytes, "0..16777216")


def _check(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"{name}={value} of the network must be {wanted}")


class NetworkPath:
    """One direction for the packets of one client: bottleneck, loss, delay, jitter, in this order.

    `now` is monotonic seconds and never goes back. Bounded: a few numbers, whatever is sent.
    """

    def __init__(self, impairment: Impairment, seed: int | str = 0) -> None:
        self.sent = 0
        self.lost = 0
        """At random."""
        self.overflowed = 0
        """Pushed out in front of the bottleneck."""
        self._impairment = impairment
        self._draw_loss = random.Random(f"{seed} loss").random
        self._delays = random.Random(f"{seed} delay")
        self._draw_extra = random.Random(f"{seed} reorder and duplicate").random
        self._in_burst = False
        self._walk = self._delays.gauss(0.0, 1.0)
        self._served_until_s = -math.inf
        self._stands_until_s = -math.inf
        self._last_arrival_s = -math.inf

    def stand_still(self, now: float, seconds: float) -> None:
        """From `now` on nothing arrives for so long; then everything at once. What is under way still arrives."""
        self._stands_until_s = max(self._stands_until_s, now + seconds)

    def arrivals(self, now: float, size: int) -> tuple[float, ...]:
        """When a packet of `size` bytes that is sent at `now` arrives: once, twice, or never."""
        what = self._impairment
        self.sent += 1
        left_s = self._leave_bottleneck(now, size)
        lost = self._loses()
        delay_s = self._delay_s()
        held_back = bool(what.reorder) and self._draw_extra() < what.reorder
        doubled = bool(what.duplicate) and self._draw_extra() < what.duplicate
        if left_s is None:
            self.overflowed += 1
            return ()
        if lost:
            self.lost += 1
            return ()
        arrival_s = max(left_s + delay_s, self._stands_until_s)
        if what.shape in ("fifo", "walk"):
            arrival_s = self._last_arrival_s = max(arrival_s, self._last_arrival_s)
        if held_back:
            arrival_s += what.reorder_ms / 1000
        return (arrival_s, arrival_s + _DUPLICATE_AFTER_S) if doubled else (arrival_s,)

    def _leave_bottleneck(self, now: float, size: int) -> float | None:
        """A token bucket as the time up to which the bottleneck is busy; None when the queue has no room."""
        rate_bps = self._impairment.rate_bps
        if rate_bps is None:
            return now
        served_s = max(self._served_until_s, now - _BUCKET_S) + size * 8 / rate_bps
        if (served_s - now) * rate_bps / 8 > max(self._impairment.queue_bytes, size):
            return None
        self._served_until_s = served_s
        return max(now, served_s)

    def _loses(self) -> bool:
        loss, burst = self._impairment.loss, self._impairment.burst
        if not loss:
            return False
        if burst == 1:
            return self._draw_loss() < loss
        # Two states: the mean stay in the bad one is the burst, and its share of the time is the loss.
        if self._in_burst:
            self._in_burst = self._draw_loss() >= 1 / burst
        else:
            self._in_burst = self._draw_loss() < loss / (burst * (1 - loss))
        return self._in_burst

    def _delay_s(self) -> float:
        what = self._impairment
        if not what.jitter_ms:
            return what.delay_ms / 1000
        if what.shape == "uniform":
            share = self._delays.random()
        elif what.shape == "walk":
            share = abs(self._walk) / _P95_OF_HALF_NORMAL
            self._walk = _WALK_MEMORY * self._walk + math.sqrt(1 - _WALK_MEMORY**2) * self._delays.gauss(0.0, 1.0)
        else:
            share = self._delays.expovariate(_P95_OF_EXPONENTIAL)
        return (what.delay_ms + share * what.jitter_ms) / 1000


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
