"""G.711: telephone speech, one byte a sample at 8 kHz, by two laws; to and from the engine's 24 kHz.

Each direction adds the resampler's delay of 4 ms, and G.711 itself none (RFC 3551 section 4.5.14).
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rtc_server.media.frames import SAMPLE_RATE, FloatSamples
from rtc_server.media.resample import Resampler
from rtc_server.media.waveformdecoder import WaveformDecoder

Law = Literal["PCMU", "PCMA"]

RATE_HZ = 8000
_FULL_SCALE = 32_768
_ROUNDED_FROM_LOWEST = _FULL_SCALE + 0.5
"""Added to a 16-bit sample before its fraction is cut off, it gives the sample's place in `_nearest_codes`."""


class G711Decoder(WaveformDecoder):
    """One stream of PCMU or PCMA packets to mono samples at 24 kHz. One thread."""

    def __init__(self, law: Law) -> None:
        super().__init__(RATE_HZ)
        self._levels = levels(law)

    def _decoded(self, payload: bytes) -> FloatSamples:
        return self._levels.take(np.frombuffer(payload, np.uint8))


class G711Encoder:
    """Mono samples at 24 kHz to PCMU or PCMA; a `codecs.AudioEncoder`. One thread."""

    def __init__(self, law: Law) -> None:
        self._codes = _nearest_codes(law)
        self._resampler = Resampler(SAMPLE_RATE, RATE_HZ)

    def encode(self, pcm: FloatSamples) -> bytes:
        """A byte for every three samples of `pcm`, float32 in [-1, 1]; what is louder is clipped. Never empty."""
        samples = self._resampler.process(pcm)
        samples *= _FULL_SCALE
        samples += _ROUNDED_FROM_LOWEST
        return self._codes.take(samples.astype(np.intp), mode="clip").tobytes()

    def follow(self, expected_loss_pct: int, bitrate_bps: int) -> None:
        """Nothing of G.711 can be adapted to a path."""


@functools.cache
def levels(law: Law) -> FloatSamples:
    """What each of the 256 codes stands for, in [-1, 1]; tables 1a to 2b of ITU-T G.711. Not to be written to."""
    octets = np.arange(256)
    if law == "PCMU":
        inverted = ~octets & 0xFF  # sent with every bit inverted
        exponent, mantissa = inverted >> 4 & 7, inverted & 15
        magnitude = ((mantissa << 3) + 132 << exponent) - 132
        negative = inverted & 0x80 != 0
    else:
        inverted = octets ^ 0x55  # every second bit
        exponent, mantissa = inverted >> 4 & 7, inverted & 15
        magnitude = (mantissa << 4) + 8 + np.where(exponent, 256, 0) << np.maximum(exponent - 1, 0)
        negative = inverted & 0x80 == 0
    table = (np.where(negative, -magnitude, magnitude) / _FULL_SCALE).astype(np.float32)
    table.flags.writeable = False
    return table


@functools.cache
def _nearest_codes(law: Law) -> NDArray[np.uint8]:
    """The code whose level is nearest to each 16-bit sample, from -32768 up; [65536]. In the middle: the louder one."""
    codes = np.arange(0x80, 0x100)  # the positive ones; the negative differ in the top bit only
    values = np.rint(levels(law)[codes] * _FULL_SCALE).astype(np.int32)
    codes, values = codes[np.argsort(values)], np.sort(values)
    borders = (values[1:] + values[:-1]) / 2
    upper = codes[np.searchsorted(borders, np.arange(_FULL_SCALE + 1), "right")].astype(np.uint8)
    return np.concatenate((upper[:0:-1] ^ 0x80, upper[:-1]))
