"""English text to speech: hibari-tts, whose only voice used here comes inside its package."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade.weights import check_hibari
from rtc_server.engine.stepper import SAMPLE_RATE

_AUDIBLE = 0.01
_LEAD_S = 0.02
_TAIL_S = 0.18
_GAIN = 1.5
_CACHED_SENTENCES = 32


class Voice(Protocol):
    """Called on the worker thread only."""

    def speak(self, sentence: str) -> NDArray[np.float32]:
        """One sentence as mono 24 kHz samples in [-1, 1]; read-only, possibly empty."""


class HibariVoice:
    """The bundled voice on one thread. The last 32 sentences are kept: greetings and jokes come back often."""

    def __init__(self) -> None:
        """Load the model and run it once, which is far slower than any later call.

        Raises: EngineError when hibari-tts is missing or its model is not the pinned one.
        """
        check_hibari()
        from hibari import Hibari

        self._tts = Hibari(threads=1)  # a voice by name would be downloaded
        self._cache: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self.speak("I am ready when you are.")

    def speak(self, sentence: str) -> NDArray[np.float32]:
        cached = self._cache.get(sentence)
        if cached is None:
            cached = _trimmed(np.asarray(self._tts(sentence, seed=0), np.float32))
            cached.setflags(write=False)
            self._cache[sentence] = cached
            if len(self._cache) > _CACHED_SENTENCES:
                self._cache.popitem(last=False)
        self._cache.move_to_end(sentence)
        return cached


def _trimmed(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    """Without most of the silence before and after: a third of a second of it would go straight into the delay."""
    audible = np.flatnonzero(np.abs(pcm) > _AUDIBLE)
    if not len(audible):
        return np.zeros(0, np.float32)
    start = max(0, int(audible[0]) - int(_LEAD_S * SAMPLE_RATE))
    end = int(audible[-1]) + int(_TAIL_S * SAMPLE_RATE)
    trimmed: NDArray[np.float32] = np.clip(pcm[start:end] * np.float32(_GAIN), -1.0, 1.0)
    return trimmed
