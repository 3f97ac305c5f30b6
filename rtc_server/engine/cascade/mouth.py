"""What a slot says: sentences in, 80 ms frames and the words heard in them out."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import FRAME_SAMPLES, SAMPLE_RATE

FADE_SAMPLES = 480
"""20 ms, on being cut."""

_BLOCK_SAMPLES = 240
"""10 ms."""
_PAUSE_BLOCKS = 6
"""A shorter silence lies within a word: before a "t", for example."""
_QUIET = 0.02
"""Of the loudest block."""
_PAUSE_WITHIN_SAMPLES = 9600
"""Of where a pause is expected: 400 ms."""
_SYLLABLE = re.compile(r"[aeiouy]+")


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
            self._queue.append(_Spoken(sentence, pcm, deque(time_words(sentence, pcm))))

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


def time_words(sentence: str, pcm: NDArray[np.float32]) -> list[Word]:
    """When each word of a sentence starts in its audio, mono 24 kHz.

    At a comma the voice pauses, and what follows starts when it goes on; between pauses every syllable and every
    letter takes its time. Three of four words are within 80 ms of the voice's own timing.
    """
    words = sentence.split()
    before = np.cumsum([0, *map(_weight, words)])
    start, end, pauses = _pauses(pcm)
    timed: list[Word] = []
    first = 0
    for after, word in enumerate(words, 1):
        stop = following = end
        if after < len(words):
            if word[-1] not in ",;:.!?":
                continue
            share = (before[after] - before[first]) / (before[-1] - before[first])
            expected = start + (end - start) * share
            near = [
                pause for pause in pauses if start < pause[0] and abs(sum(pause) / 2 - expected) < _PAUSE_WITHIN_SAMPLES
            ]
            if not near:
                continue
            stop, following = max(near, key=lambda pause: pause[1] - pause[0] - 0.3 * abs(sum(pause) / 2 - expected))
        for index in range(first, after):
            share = (before[index] - before[first]) / (before[after] - before[first])
            timed.append(Word(words[index], int(start + (stop - start) * share)))
        first, start = after, following
    return timed


def _weight(word: str) -> int:
    """How long a word takes, against others."""
    letters = sum(character.isalnum() for character in word)
    return 2 * max(1, len(_SYLLABLE.findall(word.lower()))) + letters


def _pauses(pcm: NDArray[np.float32]) -> tuple[int, int, list[tuple[int, int]]]:
    """Where the sound starts, where it ends, and the pauses in between; in samples."""
    blocks = pcm[: len(pcm) // _BLOCK_SAMPLES * _BLOCK_SAMPLES].reshape(-1, _BLOCK_SAMPLES)
    levels = np.sqrt(np.mean(np.square(blocks), axis=1))
    loud = np.flatnonzero(levels > _QUIET * levels.max(initial=0.0))
    if not len(loud):
        return 0, len(pcm), []
    gaps = np.flatnonzero(np.diff(loud) > _PAUSE_BLOCKS)
    pauses = [(int(loud[gap] + 1) * _BLOCK_SAMPLES, int(loud[gap + 1]) * _BLOCK_SAMPLES) for gap in gaps]
    return int(loud[0]) * _BLOCK_SAMPLES, int(loud[-1] + 1) * _BLOCK_SAMPLES, pauses
