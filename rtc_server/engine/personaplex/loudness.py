"""Every voice at the same loudness, whatever microphone it came from."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.personaplex.voicefiles import VoiceUnusable
from rtc_server.engine.stepper import SAMPLE_RATE

TARGET_LUFS = -24.0
"""Integrated loudness (ITU-R BS.1770-4) of the voices that the model was trained with."""


def normalised(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    """`pcm`, mono [T] at 24 kHz and at least 0.4 s long, brought to `TARGET_LUFS`. Peaks are left alone.

    Raises: VoiceUnusable for silence, which no gain makes louder.
    """
    import pyloudnorm  # brings scipy, which only a recording that is not prepared yet is worth

    lufs = float(pyloudnorm.Meter(SAMPLE_RATE).integrated_loudness(pcm.astype(np.float64)))
    if not math.isfinite(lufs):
        raise VoiceUnusable("it is silent")
    return (pcm * 10 ** ((TARGET_LUFS - lufs) / 20)).astype(np.float32)
