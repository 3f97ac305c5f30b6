"""Speech to English text: Whisper through CTranslate2.

Whisper is trained on windows of 30 s, but its encoder takes shorter ones, and the cost goes with the window: an
utterance gets its own length plus a second of silence. A short window sometimes makes the decoder loop; a mild
repetition penalty and a length limit cure that.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade.logmel import FRAMES_PER_S, HOP_SAMPLES, SAMPLE_RATE_HZ, log_mel
from rtc_server.engine.cascade.weights import DEMO_HINT, WeightsUnusable

MAX_UTTERANCE_S = 20.0
NO_SPEECH_GATE = 0.6
"""Whisper's own probability that there was no speech; above it, it invents words such as "you"."""
_MIN_WINDOW_FRAMES = 500
_MAX_WINDOW_FRAMES = 3000
_TOKENS_PER_S = 7
_REPETITION_PENALTY = 1.2
_QUIET_PEAK = 0.4
_MAX_GAIN = 30.0
_ANNOTATION = re.compile(r"\[[^\]]*\]|\([^)]*\)|[*♪]+")


class Recogniser(Protocol):
    """Called on the worker thread only."""

    def transcribe(self, pcm: NDArray[np.float32]) -> str:
        """The words in an utterance (mono, 16 kHz, at most `MAX_UTTERANCE_S`), or "" where there are none."""


class WhisperRecogniser:
    """One model for all slots, one thread, 8-bit weights."""

    def __init__(self, directory: Path) -> None:
        """Load the weights and run once, so that the first utterance is not slower than the rest.

        Raises: WeightsUnusable when a library is missing or the files are not a Whisper model.
        """
        try:
            import ctranslate2
            from tokenizers import Tokenizer
        except ImportError as error:
            raise WeightsUnusable(f"the recogniser lacks the package {error.name}", hint=DEMO_HINT) from None
        try:
            self._model = ctranslate2.models.Whisper(
                str(directory), device="cpu", compute_type="int8", inter_threads=1, intra_threads=1
            )
            self._tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        except Exception as error:  # both libraries raise bare RuntimeError or Exception on a bad file
            raise WeightsUnusable(
                f"{directory} could not be loaded as a CTranslate2 Whisper model",
                hint="check that model.bin and tokenizer.json are complete and belong together",
            ) from error
        self._storage: Any = ctranslate2.StorageView.from_array
        self._bands = int(self._model.n_mels)
        task = ("<|en|>", "<|transcribe|>") if self._model.is_multilingual else ()
        prompt = ("<|startoftranscript|>", *task, "<|notimestamps|>")
        ids = [self._tokenizer.token_to_id(token) for token in prompt]
        self._prompt = [number for number in ids if number is not None]
        if len(self._prompt) < len(prompt):
            raise WeightsUnusable(f"the tokenizer in {directory} is not Whisper's")
        self.transcribe(np.zeros(SAMPLE_RATE_HZ, np.float32))

    def transcribe(self, pcm: NDArray[np.float32]) -> str:
        pcm = pcm[: int(MAX_UTTERANCE_S * SAMPLE_RATE_HZ)]
        frames = len(pcm) // HOP_SAMPLES + FRAMES_PER_S
        features = log_mel(_levelled(pcm), min(max(frames, _MIN_WINDOW_FRAMES), _MAX_WINDOW_FRAMES), self._bands)
        result = self._model.generate(
            self._storage(features[None]),
            [self._prompt],
            beam_size=1,
            repetition_penalty=_REPETITION_PENALTY,
            max_length=8 + int(_TOKENS_PER_S * len(pcm) / SAMPLE_RATE_HZ),
            return_no_speech_prob=True,
        )[0]
        if result.no_speech_prob > NO_SPEECH_GATE:
            return ""
        text: str = self._tokenizer.decode(result.sequences_ids[0])
        return " ".join(_ANNOTATION.sub(" ", text).split())


def _levelled(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    """A quiet microphone raised to speaking level; louder ones as they are."""
    peak = float(np.abs(pcm).max(initial=0.0))
    if peak == 0.0 or peak >= _QUIET_PEAK:
        return pcm
    return pcm * np.float32(min(_QUIET_PEAK / peak, _MAX_GAIN))
