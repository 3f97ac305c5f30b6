"""Going on with a sound that breaks off, by saying its last pitch period again and again, ever more softly.

For codecs that keep no model of the voice, in the manner of ITU-T G.711 Appendix I, without the delay which that asks
for. At 8 kHz, or a multiple of it: lengths are given in samples at 8 kHz.
"""

from __future__ import annotations

import numpy as np

from rtc_server.media.frames import FloatSamples

RATE_HZ = 8000
SHORTEST_PERIOD = 40
LONGEST_PERIOD = 120
"""200 Hz to 67 Hz; a higher voice is repeated two periods at a time."""
COMPARED = 160
PAST_SAMPLES = COMPARED + LONGEST_PERIOD
"""What is looked at of the sound so far: 35 ms."""

_FULL = 80
_SILENT_FROM = 480
_SEAM = 20
"""2.5 ms: over which a step is spread."""


class PitchLoop:
    """One gap's sound. It keeps its loudness for 10 ms and is silent after 60.

    Args:
        past: the last samples before the gap, [scale * `PAST_SAMPLES`].
        scale: their rate in multiples of 8 kHz.
    """

    def __init__(self, past: FloatSamples, scale: int = 1) -> None:
        period = pitch_period(past, scale)
        seam = scale * _SEAM
        ease_out = np.linspace(1, 0, seam, endpoint=False, dtype=np.float32)
        loop = past[-period:].copy()
        # The end runs into the beginning as the sound once did.
        loop[-seam:] += (1 - ease_out) * (past[-period - seam : -period] - loop[-seam:])
        self._loop = loop
        self._step = float(past[-1] - past[-period - 1]) * ease_out
        self._full = scale * _FULL
        self._silent_from = scale * _SILENT_FROM
        self.position = 0
        """How many samples have been given."""

    def next(self, n_samples: int) -> FloatSamples:
        """The next `n_samples`; a new array."""
        begin, self.position = self.position, self.position + n_samples
        return self.sound(begin, self.position)

    def sound(self, begin: int, end: int) -> FloatSamples:
        """The samples from one position to another, given already or not; a new array."""
        where = np.arange(begin, end)
        sound: FloatSamples = self._loop[where % self._loop.size]
        if begin < self._step.size:  # the loop begins where the sound broke off, not where it broke off a period before
            step = self._step[begin:end]
            sound[: step.size] += step
        if end > self._full:
            fade = (self._silent_from - where) / (self._silent_from - self._full)
            sound *= np.clip(fade, 0, 1).astype(np.float32)
        return sound


def pitch_period(past: FloatSamples, scale: int = 1) -> int:
    """The lag at which the last 20 ms resemble what was before them most: 5 to 15 ms in samples."""
    compared, longest = scale * COMPARED, scale * LONGEST_PERIOD
    here = past[-compared:]
    before = past[-compared - longest : -scale * SHORTEST_PERIOD]  # begins one longest period earlier
    alike = np.correlate(before, here, "valid")
    powers = np.concatenate(([0.0], np.cumsum(np.square(before, dtype=np.float64))))
    power = powers[compared:] - powers[:-compared]
    return longest - int(np.argmax(alike / np.sqrt(np.maximum(power, 1e-9))))
