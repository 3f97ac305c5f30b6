"""The unit of audio that goes in and out of the engine: 80 ms at 24 kHz, mono.

Everybody who has user audio to give is a `FrameSource`: a jitter buffer for packets, a PCM queue for sockets.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 24_000
SAMPLES_PER_MS = SAMPLE_RATE // 1000
FRAME_SAMPLES = 1920
FRAME_S = FRAME_SAMPLES / SAMPLE_RATE
PACKET_SAMPLES = 480
PACKET_S = PACKET_SAMPLES / SAMPLE_RATE

FloatSamples = NDArray[np.float32]
"""Mono samples in [-1, 1] at 24 kHz, shape [n]."""


class FrameSource(Protocol):
    """Gives one frame per tick, whatever the network does."""

    def take(self, now: float) -> FloatSamples:
        """The next frame: [1920] samples, a new array. Never blocks, never raises; what is missing is made up now."""

    def skip(self, frames: int) -> None:
        """Pass over frames whose time is gone, so that the next `take` gives the present. Costs next to nothing."""
