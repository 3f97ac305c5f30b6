"""What a slot's microphone gives: 16 ms blocks at 16 kHz, each with its probability of voice and its level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE
from rtc_server.errors import EngineError
from rtc_server.media.resample import Resampler

EAR_RATE_HZ = 16_000
BLOCK_SAMPLES = 256
BLOCK_S = BLOCK_SAMPLES / EAR_RATE_HZ
BLOCKS_PER_FRAME = 5
EAR_FRAME_SAMPLES = BLOCKS_PER_FRAME * BLOCK_SAMPLES
"""1280: an 80 ms frame at 16 kHz is exactly five blocks."""
_INAUDIBLE_RMS = 3e-4
"""-70 dBFS: the detector judges the shape of a sound, whatever its level, so dither could pass for speech."""


@dataclass(frozen=True, slots=True)
class HeardFrame:
    """One 80 ms frame as the ear understood it."""

    pcm: NDArray[np.float32]
    """[1280] at 16 kHz."""
    voice: tuple[float, ...]
    """Probability of voice of each of the five blocks."""
    rms: tuple[float, ...]
    """Level of each block, 1.0 is full scale."""


class Ear(Protocol):
    """One per slot, engine thread."""

    def hear(self, pcm: NDArray[np.float32]) -> HeardFrame:
        """The next frame, [1920] at 24 kHz."""

    def reset(self) -> None:
        """Forget everything heard: another conversation begins."""


class EarshotEar:
    """The earshot voice activity detector behind a 24 to 16 kHz resampler (2 ms late)."""

    def __init__(self) -> None:
        """Raises: EngineError when earshot is not installed."""
        try:
            from earshot import Detector
        except ImportError:
            raise EngineError(
                "the demo engine's voice detector, earshot, is not installed",
                hint="install it with: pip install '.[demo]' in the folder of the source",
            ) from None
        self._detector = Detector()
        self._resampler = Resampler(SAMPLE_RATE, EAR_RATE_HZ)

    def hear(self, pcm: NDArray[np.float32]) -> HeardFrame:
        assert len(pcm) == FRAME_SAMPLES
        low = np.clip(self._resampler.process(pcm), -1.0, 1.0)
        blocks = low.reshape(BLOCKS_PER_FRAME, BLOCK_SAMPLES)
        rms = np.sqrt(np.mean(blocks * blocks, axis=1))
        voice = [float(self._detector.predict_f32(block)) for block in blocks]
        return HeardFrame(
            low,
            tuple(p if level > _INAUDIBLE_RMS else 0.0 for p, level in zip(voice, rms, strict=True)),
            tuple(rms.tolist()),
        )

    def reset(self) -> None:
        self._detector.reset()
        self._resampler.reset()
