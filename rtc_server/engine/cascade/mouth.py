"""What a slot says: sentences in, 80 ms frames and the words heard in them out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE

FADE_SAMPLES = 480
"""20 ms, on being cut."""


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    start_sample: int
    """From the start of its sentence's audio."""


@dataclass(slots=True)
class _Spoken:
    sentence: str
    pcm: NDArray[np.float32]
    words: deque[Word]
    position: int = 0


@dataclass(slots=True)
class Mouth:
    """Bounded by its caller, who hands over the next sentence only when `ahead_s` runs low."""

    _queue: deque[_Spoken] = field(default_factory=deque)
    _fading: NDArray[np.float32] | None = None
    _said_anything: bool = False

    @property
    def active(self) -> bool:
        return bool(self._queue)

    @property
    def ahead_s(self) -> float:
        """Seconds of audio still to be played."""
        return sum(len(spoken.pcm) - spoken.position for spoken in self._queue) / SAMPLE_RATE

    @property
    def waiting(self) -> list[str]:
        """Sentences that have not begun."""
        return [spoken.sentence for spoken in self._queue if spoken.position == 0]

    def say(self, sentence: str, pcm: NDArray[np.float32]) -> None:
        """Queue a sentence with its audio, mono 24 kHz. Without audio it is not said, and its words never appear."""
        if len(pcm):
            self._queue.append(_Spoken(sentence, pcm, deque(time_words(sentence, len(pcm)))))

    def cut(self) -> list[str]:
        """Stop within 20 ms. Returns the sentences that were not finished, oldest first."""
        unfinished = [spoken.sentence for spoken in self._queue]
        if self._queue:
            current = self._queue[0]
            tail = current.pcm[current.position : current.position + FADE_SAMPLES]
            self._fading = tail * np.linspace(1.0, 0.0, len(tail), dtype=np.float32)
        self._queue.clear()
        return unfinished

    def take(self, out: NDArray[np.float32]) -> list[str]:
        """Fill `out` [1920] with the next frame and return the words that begin in it, with their leading spaces."""
        out[:] = 0.0
        if self._fading is not None:
            out[: len(self._fading)] = self._fading
            self._fading = None
            return []
        words: list[str] = []
        filled = 0
        while self._queue and filled < FRAME_SAMPLES:
            current = self._queue[0]
            part = current.pcm[current.position : current.position + FRAME_SAMPLES - filled]
            out[filled : filled + len(part)] = part
            filled += len(part)
            current.position += len(part)
            while current.words and current.words[0].start_sample < current.position:
                words.append(self._spaced(current.words.popleft().text))
            if current.position >= len(current.pcm):
                self._queue.popleft()
        return words

    def _spaced(self, word: str) -> str:
        spaced = f" {word}" if self._said_anything else word
        self._said_anything = True
        return spaced


def time_words(sentence: str, samples: int) -> list[Word]:
    """When each word of a sentence starts, as if every character took the same time."""
    words = sentence.split()
    total = sum(len(word) + 1 for word in words)
    timed, before = [], 0
    for word in words:
        timed.append(Word(word, samples * before // total))
        before += len(word) + 1
    return timed
