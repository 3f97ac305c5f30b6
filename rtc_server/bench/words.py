"""What the demo engine's recogniser understands of speech."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade.logmel import SAMPLE_RATE_HZ
from rtc_server.engine.cascade.recogniser import Recogniser, WhisperRecogniser
from rtc_server.engine.cascade.weights import WeightsUnusable, find_recogniser
from rtc_server.engine.stepper import SAMPLE_RATE
from rtc_server.media.resample import Resampler

__all__ = ["Recogniser", "WeightsUnusable", "find_words", "load_recogniser"]


def load_recogniser() -> Recogniser:
    """Takes a second or two. Raises: WeightsUnusable when the extra `demo` is not installed."""
    return WhisperRecogniser(find_recogniser(None))


def find_words(recogniser: Recogniser, sound: NDArray[np.float32]) -> str:
    """The words of an utterance: [n] at 24 kHz, at most 20 s."""
    return recogniser.transcribe(Resampler(SAMPLE_RATE, SAMPLE_RATE_HZ).process(sound))
