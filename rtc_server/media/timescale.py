"""Makes a stretch of speech a little shorter or longer where nobody hears it.

Two kinds of place will do: a quiet one, where anything may go, and one whole pitch period of a voiced sound. A `Place`
is where a splice begins and how many samples it removes or repeats; both splices crossfade over `FADE_SAMPLES`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rtc_server.media.frames import SAMPLES_PER_MS, FloatSamples

BLOCK_SAMPLES = 60
"""2.5 ms: the grain in which loudness is judged, and the crossfade after concealment."""
FADE_SAMPLES = 120
"""5 ms: the crossfade of a splice."""

SHORTEST_PERIOD = 60
LONGEST_PERIOD = 15 * SAMPLES_PER_MS
_PERIOD_STEP = 320
_AS_GOOD = 0.02

_FADE_IN = np.linspace(0, 1, FADE_SAMPLES, dtype=np.float32)
_FADE_OUT = 1 - _FADE_IN
_JOIN_IN = np.linspace(0, 1, BLOCK_SAMPLES, dtype=np.float32)
_JOIN_OUT = 1 - _JOIN_IN
_WINDOW = np.ones(2 * FADE_SAMPLES, np.float32)


class Place(NamedTuple):
    position: int
    length: int


class SpeechLevel:
    """Follows the peak of the speech and the floor of the noise; says what counts as quiet.

    Powers are means over 2.5 ms of samples in [-1, 1]. The peak falls 0.8 dB a second, the floor rises 2 % a frame.
    """

    _PEAK_DECAY = 0.985
    _FLOOR_RISE = 1.02
    _QUIET_BELOW_PEAK = 1e-3
    _QUIET_ABOVE_FLOOR = 6.0
    _QUIET_AT_MOST = 0.03
    _QUIET_AT_LEAST = 1e-7

    def __init__(self) -> None:
        self.peak = 1e-6
        self.floor = 1e-8

    def update(self, frame: FloatSamples) -> None:
        """Take in one frame, at 12.5 a second."""
        power = sorted(block_power(frame).tolist())
        if not power:
            return
        self.peak = max(self.peak * self._PEAK_DECAY, power[-1])
        low = power[len(power) // 8]
        self.floor = max(low if low < self.floor else min(self.floor * self._FLOOR_RISE, low), 1e-10)

    @property
    def quiet(self) -> float:
        """The power up to which a block is quiet."""
        near_floor = min(self.floor * self._QUIET_ABOVE_FLOOR, self.peak * self._QUIET_AT_MOST)
        return max(self._QUIET_AT_LEAST, near_floor, self.peak * self._QUIET_BELOW_PEAK)


def block_power(samples: FloatSamples) -> FloatSamples:
    """Mean power of each whole block of 2.5 ms."""
    count = samples.size // BLOCK_SAMPLES
    blocks = samples[: count * BLOCK_SAMPLES].reshape(count, BLOCK_SAMPLES)
    power: FloatSamples = np.einsum("ij,ij->i", blocks, blocks) / BLOCK_SAMPLES
    return power


def quiet_place(samples: FloatSamples, wanted: int, threshold: float, latest: int | None = None) -> Place | None:
    """The longest splice of at most `wanted` samples inside the longest quiet stretch; None where there is none.

    It begins at `latest` at the latest. A splice of less than a block is not worth making, unless less is wanted.
    """
    quiet = block_power(samples) <= threshold
    if not quiet.any():
        return None
    edges = np.flatnonzero(np.diff(np.concatenate(([0], quiet.view(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    start, stretch = int(starts[longest]) * BLOCK_SAMPLES, int(ends[longest] - starts[longest]) * BLOCK_SAMPLES
    length = min(wanted, stretch - FADE_SAMPLES)
    if length < min(BLOCK_SAMPLES, wanted) or (latest is not None and start > latest):
        return None
    middle = start + (stretch - FADE_SAMPLES - length) // 2
    return Place(middle if latest is None else min(middle, latest), length)


def pitch_place(samples: FloatSamples, wanted: int, similarity: float, latest: int | None = None) -> Place | None:
    """Where the sound repeats itself best, with a period of 2.5 ms up to `wanted`; it begins at `latest` at the latest.

    None where no two periods have a normalised correlation of at least `similarity`; -1 takes the best there is.
    """
    longest = min(LONGEST_PERIOD, wanted, samples.size - 3 * FADE_SAMPLES)
    if longest < SHORTEST_PERIOD:
        return None
    width = 2 * FADE_SAMPLES
    best_correlation, best = -2.0, Place(0, longest)
    end = samples.size - width - longest
    for position in range(0, end if latest is None else min(end, latest + 1), _PERIOD_STEP):
        here = samples[position : position + width]
        later = samples[position + SHORTEST_PERIOD : position + longest + width]
        power = np.convolve(np.square(later), _WINDOW, "valid") * float(here @ here)
        correlation = np.correlate(later, here, "valid") / np.sqrt(np.maximum(power, 1e-12))
        lag = int(np.flatnonzero(correlation >= correlation.max() - _AS_GOOD)[-1])  # several periods, if they fit
        if correlation[lag] > best_correlation:
            best_correlation, best = float(correlation[lag]), Place(position, SHORTEST_PERIOD + lag)
    return best if best_correlation >= similarity else None


def cut_joint(samples: FloatSamples, place: Place) -> FloatSamples:
    """The crossfade that stands where a cut was: [FADE_SAMPLES] samples."""
    at, length = place
    return samples[at : at + FADE_SAMPLES] * _FADE_OUT + samples[at + length : at + length + FADE_SAMPLES] * _FADE_IN


def shortened(samples: FloatSamples, place: Place) -> FloatSamples:
    """`samples` without the `length` samples behind `position`."""
    at, length = place
    return np.concatenate((samples[:at], cut_joint(samples, place), samples[at + length + FADE_SAMPLES :]))


def lengthened(samples: FloatSamples, place: Place) -> FloatSamples:
    """`samples` with the `length` samples behind `position` said twice."""
    at, length = place
    again = at + length
    joint = samples[again : again + FADE_SAMPLES] * _FADE_OUT + samples[at : at + FADE_SAMPLES] * _FADE_IN
    return np.concatenate((samples[:again], joint, samples[at + FADE_SAMPLES :]))


def fade_away(sound: FloatSamples) -> FloatSamples:
    """How `sound` ends where it breaks off: the mirror image of its last 5 ms fades out. [FADE_SAMPLES] samples."""
    return sound[::-1][:FADE_SAMPLES] * _FADE_OUT


def join(continuation: FloatSamples, samples: FloatSamples) -> None:
    """Crossfade into `samples`, in place, from how the sound before would have gone on (2.5 ms of it)."""
    count = min(continuation.size, samples.size, BLOCK_SAMPLES)
    if count:
        samples[:count] = continuation[:count] * _JOIN_OUT[:count] + samples[:count] * _JOIN_IN[:count]
