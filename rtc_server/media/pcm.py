"""Samples as int16, which codecs and engines exchange, and as float32 in [-1, 1), in which they are worked on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FULL_SCALE = 32768
_SCALE = np.float32(FULL_SCALE)
_INT16 = np.iinfo(np.int16)


def to_float(pcm: NDArray[np.int16], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """int16 to [-1, 1), any shape; into `out` if given."""
    return np.multiply(pcm, 1 / _SCALE, out=out, dtype=np.float32)


def to_int16(pcm: NDArray[np.float32]) -> NDArray[np.int16]:
    """The inverse of `to_float`, rounded and clipped; what is not a number becomes silence.

    A fresh array, so that rows of it may be kept.
    """
    scaled = np.rint(pcm * _SCALE)
    np.nan_to_num(scaled, copy=False)
    converted: NDArray[np.int16] = np.clip(scaled, _INT16.min, _INT16.max).astype(np.int16)
    return converted
