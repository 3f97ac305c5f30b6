"""How a voice sounds, before anybody calls: what a stepper gives, made fit for whoever listens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import FRAME_SAMPLES, MAX_VOICE_SAMPLE_FRAMES, FrameStepper, SupportsVoiceSamples
from rtc_server.errors import EngineError
from rtc_server.media.pcm import to_int16


def voice_sample(stepper: FrameStepper, voice: str) -> NDArray[np.int16] | None:
    """[frames, 1920] at 24 kHz, at most six seconds, the last frame filled up with silence. None: there is no sample.

    Raises: UnknownVoice; EngineError for a sample that is no sound; what the stepper raises.
    """
    stepper.spec.check_voice(voice)
    if voice not in stepper.spec.voice_samples:
        return None
    if not isinstance(stepper, SupportsVoiceSamples):
        raise EngineError(f"engine {stepper.spec.name} names voice_samples and has no voice_sample(voice)")
    pcm = np.asarray(stepper.voice_sample(voice), np.float32)
    if pcm.ndim != 1 or not pcm.size or not np.isfinite(pcm).all():
        raise EngineError(f"the sample of voice {voice[:40]!r} is no sound: {list(pcm.shape)}")
    pcm = pcm[: MAX_VOICE_SAMPLE_FRAMES * FRAME_SAMPLES]
    return to_int16(np.pad(pcm, (0, -len(pcm) % FRAME_SAMPLES)).reshape(-1, FRAME_SAMPLES))
