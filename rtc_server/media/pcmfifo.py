"""A queue of PCM chunks with the contract of a jitter buffer: one 80 ms frame per tick, whatever came.

For sockets, where nothing is lost and nothing is out of order, but everything may be late.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.pcm import to_float
from rtc_server.media.samplestore import SampleStore

_FADE_SAMPLES = 5 * SAMPLES_PER_MS
_FADE_IN = np.linspace(0, 1, _FADE_SAMPLES, dtype=np.float32)


@dataclass(slots=True)
class PcmFifoCounters:
    chunks: int = 0
    frames: int = 0
    dropped_samples: int = 0
    """The oldest, because more than the bound was waiting."""
    missing_samples: int = 0
    """Silence given out because nothing was there."""


class PcmFifo:
    """A `FrameSource` for 24 kHz mono PCM.

    Bound: `max_ms` of sound; what comes beyond it pushes out the oldest. A frame that is not complete is filled with
    silence after a fade of 5 ms; what comes later is played later, and only the bound limits that delay.
    """

    def __init__(self, max_ms: int = 1000) -> None:
        self.counters = PcmFifoCounters()
        self._store = SampleStore(max(max_ms * SAMPLES_PER_MS, FRAME_SAMPLES))
        self._ran_dry = False

    def put(self, now: float, chunk: FloatSamples | NDArray[np.int16]) -> None:
        """Queue a chunk of any size: float32 in [-1, 1], or int16."""
        del now  # the same signature as a jitter buffer's: the sound itself is the clock here
        self.counters.chunks += 1
        if chunk.dtype == np.int16:
            samples = to_float(chunk.reshape(-1).astype(np.int16, copy=False))
        else:
            samples = chunk.reshape(-1).astype(np.float32)
            np.nan_to_num(samples, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)
        self.counters.dropped_samples += self._store.append(samples)

    def take(self, now: float) -> FloatSamples:
        """The next frame: [1920] samples."""
        del now
        self.counters.frames += 1
        frame = np.zeros(FRAME_SAMPLES, np.float32)
        ready = self._store.read(self._store.first, FRAME_SAMPLES)
        frame[: ready.size] = ready
        if self._ran_dry and ready.size:
            fade = min(ready.size, _FADE_SAMPLES)
            frame[:fade] *= _FADE_IN[:fade]
        self._ran_dry = ready.size < FRAME_SAMPLES
        if self._ran_dry:
            self.counters.missing_samples += FRAME_SAMPLES - ready.size
            fade = min(ready.size, _FADE_SAMPLES)
            frame[ready.size - fade : ready.size] *= _FADE_IN[:fade][::-1]
        self._store.forget_before(self._store.first + ready.size)
        return frame

    def skip(self, frames: int) -> None:
        """Pass over what is waiting of the next frames."""
        gone = min(len(self._store), max(0, frames) * FRAME_SAMPLES)
        self._store.forget_before(self._store.first + gone)
        self.counters.dropped_samples += gone

    @property
    def queued_samples(self) -> int:
        return len(self._store)
