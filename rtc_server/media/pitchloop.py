"""Going on with a sound that breaks off, by saying its last pitch period again and again, ever more softly.

For codecs that keep no model of the voice, in the manner of ITU-T G.711 Appendix I, without the delay which that asks
for. At 8 kHz.
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
_EASE_OUT = np.linspace(1, 0, _SEAM, endpoint=False, dtype=np.float32)


class PitchLoop:
    """One gap's sound. It keeps its loudness for 10 ms and is silent after 60.

    Args:
        past: the last samples before the gap, [`PAST_SAMPLES`] at 8 kHz.
    """

    def __init__(self, past: FloatSamples) -> None:
        period = pitch_period(past)
        loop = past[-period:].copy()
        # The end runs into the beginning as the sound once did.
        loop[-_SEAM:] += (1 - _EASE_OUT) * (past[-period - _SEAM : -period] - loop[-_SEAM:])
        self._loop = loop
        self._step = float(past[-1] - past[-period - 1])
        self._at = 0

    def next(self, n_samples: int) -> FloatSamples:
        """The next `n_samples`; a new array."""
        at, self._at = self._at, self._at + n_samples
        where = np.arange(at, self._at)
        sound: FloatSamples = self._loop[where % self._loop.size]
        if at == 0:  # the loop begins where the sound broke off, not where it broke off one period before
            sound[:_SEAM] += (self._step * _EASE_OUT)[: sound.size]
        if self._at > _FULL:
            sound *= np.clip((_SILENT_FROM - where) / (_SILENT_FROM - _FULL), 0, 1).astype(np.float32)
        return sound


def pitch_period(past: FloatSamples) -> int:
    """The lag at which the last 20 ms resemble what was before them most: 5 to 15 ms in samples."""
    here = past[-COMPARED:]
    before = past[-COMPARED - LONGEST_PERIOD : -SHORTEST_PERIOD]  # begins one longest period earlier
    alike = np.correlate(before, here, "valid")
    powers = np.concatenate(([0.0], np.cumsum(np.square(before, dtype=np.float64))))
    power = powers[COMPARED:] - powers[:-COMPARED]
    return LONGEST_PERIOD - int(np.argmax(alike / np.sqrt(np.maximum(power, 1e-9))))
