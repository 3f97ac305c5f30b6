"""How far what was heard is from what was said: spectra and words. Sans-IO, numpy only."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_WINDOW_SAMPLES = 512
_HOP_SAMPLES = 256
_MAGNITUDE_FLOOR = 0.01
"""Added to both magnitudes, for samples in [-1, 1]: what lies below it is not heard, however far apart it is."""
_SPEECH_SHARE = 0.1
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SPELLINGS = {str(value): word for value, word in enumerate(_NUMBERS)} | {"mr": "mister"}
"""What a recogniser may write for a word."""


def log_spectral_distance_db(clean: NDArray[np.floating], heard: NDArray[np.floating]) -> float:
    """Mean over speech of the root mean square difference of two log spectra, in dB; 0 for the same sound.

    Args:
        clean, heard: [n] each, sample by sample in step, mono at 24 kHz in [-1, 1].

    Windows in which `clean` has less than a tenth of its mean magnitude are pauses, and left out. 0.0 for sounds that
    are shorter than a window, or silent.
    """
    spectra, reference = _magnitudes(np.asarray(heard)), _magnitudes(np.asarray(clean))
    if not reference.size or not reference.any():
        return 0.0
    speech = reference.mean(axis=1) > reference.mean() * _SPEECH_SHARE
    ratio_db = 20 * np.log10((reference[speech] + _MAGNITUDE_FLOOR) / (spectra[speech] + _MAGNITUDE_FLOOR))
    return float(np.sqrt((ratio_db**2).mean(axis=1)).mean())


def _magnitudes(sound: NDArray[np.floating]) -> Array:
    """[windows, 257]"""
    if sound.size < _WINDOW_SAMPLES:
        return np.empty((0, _WINDOW_SAMPLES // 2 + 1))
    windows = np.lib.stride_tricks.sliding_window_view(sound, _WINDOW_SAMPLES)[::_HOP_SAMPLES]
    return np.abs(np.fft.rfft(windows * np.hanning(_WINDOW_SAMPLES), axis=1))


def words_of(text: str) -> list[str]:
    """Lower case, without punctuation, small numbers spelled out."""
    plain = re.sub(r"[^a-z0-9' ]", " ", text.lower())
    return [_SPELLINGS.get(word, word) for word in plain.split()]


def word_errors(said: Sequence[str], heard: Sequence[str]) -> int:
    """Words to change, add or take away to come from one to the other (Levenshtein distance)."""
    row = list(range(len(heard) + 1))
    for said_count, word in enumerate(said, 1):
        diagonal, row[0] = row[0], said_count
        for heard_count, other in enumerate(heard, 1):
            changed = diagonal + (word != other)
            diagonal = row[heard_count]
            row[heard_count] = min(changed, diagonal + 1, row[heard_count - 1] + 1)
    return row[-1]
