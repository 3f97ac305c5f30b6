"""What our Opus does against the loss that the peer reports: copies (RED), in-band FEC, bitrate.

Measured on speech, 20 ms packets, independent loss; log-spectral distance in dB from what was said, 0 % loss beside it:

- With RED the transform codec stays, since copies repair more than in-band FEC at any bitrate (40 kb/s, 10 % loss: one
  copy 3.7, FEC 4.2; 20 %: two copies 3.6, one 3.8; no loss 3.6). Only with DTX it is the speech codec all the same.
- Without it FEC is worth its bits from the first loss on: 3 % loss costs the transform codec and the speech codec with
  FEC the same, 10 % 0.9 against 0.6.
- FEC takes its bits from the packet's own sound, so it gets 8 kb/s more: 3.9 instead of 4.2 at 10 % loss.
- How much loss the encoder is told to expect hardly matters (0.1 between 5 and 20 %); above 20 % its own sound suffers
  more than the repair gains.
- At a quarter lost the path is most likely full, and every bit makes it worse. One copy of 16 kb/s (5.6 at 30 %) does
  more there than FEC at 24 kb/s (6.3), which does more than FEC at 16 kb/s (7.3).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

COUNTS_FROM = 0.01
TWO_COPIES_FROM = 0.10
FULL_FROM = 0.25
"""In two reports running: one alone may be a short standstill of the path."""
MEMORY_S = 10.0
"""A loss is remembered for so long: lossy paths have quiet seconds too."""

PLAIN_BPS = 40_000
FEC_BPS = 48_000
FULL_PATH_FEC_BPS = 24_000
FULL_PATH_COPIED_BPS = 16_000
LEAST_EXPECTED_PCT = 5
MOST_EXPECTED_PCT = 20


class Protection(NamedTuple):
    """What encoder and packets shall do."""

    expected_loss_pct: int
    """For the encoder's in-band FEC; 0 turns it off."""
    bitrate_bps: int
    copies: int
    """Of earlier packets in each one: 0 to 2."""


class LossFollower:
    """Reported loss in, protection out. Sans-IO; a few numbers, whatever is reported.

    Args:
        max_bitrate_bps: what the peer allows.
        red: it takes copies (RFC 2198).
    """

    def __init__(self, max_bitrate_bps: int, red: bool) -> None:
        self._max_bitrate_bps = max_bitrate_bps
        self._red = red
        self._loss = _Greatest()
        self._sustained = _Greatest()
        self._last_report = 0.0

    def agree(self, max_bitrate_bps: int, red: bool) -> None:
        """A later offer has changed what the peer takes; what is known of the path stays."""
        self._max_bitrate_bps, self._red = max_bitrate_bps, red

    def report(self, now: float, loss: float) -> None:
        """The peer lost this share (0..1) of our packets since its report before."""
        self._loss.note(now, loss)
        self._sustained.note(now, min(loss, self._last_report))
        self._last_report = loss

    def protection(self, now: float) -> Protection:
        loss, full = self._loss.value(now), self._sustained.value(now) >= FULL_FROM
        if self._red:
            bitrate_bps = FULL_PATH_COPIED_BPS if full else PLAIN_BPS
            return Protection(0, self._allowed(bitrate_bps), 2 if loss >= TWO_COPIES_FROM and not full else 1)
        if loss < COUNTS_FROM:
            return Protection(0, self._allowed(PLAIN_BPS), 0)
        expected = max(LEAST_EXPECTED_PCT, min(MOST_EXPECTED_PCT, round(100 * loss)))
        return Protection(expected, self._allowed(FULL_PATH_FEC_BPS if full else FEC_BPS), 0)

    def _allowed(self, bitrate_bps: int) -> int:
        return min(bitrate_bps, self._max_bitrate_bps)


class _Greatest:
    """The greatest value noted in the last `MEMORY_S`.

    Kept are only values that all later ones are smaller than, so as many at most as there are different ones: RTCP
    tells loss in 1/256.
    """

    def __init__(self) -> None:
        self._falling: deque[tuple[float, float]] = deque()  # (when, value), values falling

    def note(self, now: float, value: float) -> None:
        while self._falling and self._falling[-1][1] <= value:
            self._falling.pop()
        self._falling.append((now, value))

    def value(self, now: float) -> float:
        while self._falling and self._falling[0][0] <= now - MEMORY_S:
            self._falling.popleft()
        return self._falling[0][1] if self._falling else 0.0
