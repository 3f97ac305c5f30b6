"""Raw PCM as it comes off a socket and goes onto one: mono, little endian, to and from the engine's 24 kHz.

A socket cuts its bytes anywhere, also inside a sample. Where the rates differ, each direction adds the resampler's
delay: 4 ms at 8 kHz, 2 ms at 16 kHz, 1.3 ms at 48 kHz.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from rtc_server.media.frames import SAMPLE_RATE, FloatSamples
from rtc_server.media.pcm import to_float, to_int16
from rtc_server.media.resample import Resampler

SampleFormat = Literal["f32", "s16"]
"""IEEE 754 single precision in [-1, 1], or 16 bit integers."""

SAMPLE_BYTES: dict[SampleFormat, int] = {"f32": 4, "s16": 2}

_BLOCK_BYTES = 16 * 1024
"""Decoded at a time: resampling needs some hundred times the memory of its input meanwhile."""
_LEAST = 1e-12
"""Below that, 240 dB under full scale, products are denormal numbers, with which arithmetic is ten times as slow."""


class PcmDecoder:
    """One stream of bytes to 24 kHz. Not thread-safe.

    Args:
        format: of the samples.
        rate_hz: one of `resample.RATES_HZ`; else ValueError.
    """

    def __init__(self, format: SampleFormat, rate_hz: int) -> None:
        self._format = format
        self._resampler = Resampler(rate_hz, SAMPLE_RATE)
        self._rest = b""
        """The beginning of a sample whose other bytes are still to come."""

    @property
    def delay_s(self) -> float:
        """How much later a sound comes out than it went in."""
        return self._resampler.delay_s

    def feed(self, data: bytes) -> FloatSamples:
        """The next bytes, however they were cut: all samples that are complete now. [n] at 24 kHz, a new array.

        What is not a number, or next to nothing, becomes 0; what is beyond full scale is clipped to it.
        """
        blocks = [self._decode(data[at : at + _BLOCK_BYTES]) for at in range(0, len(data), _BLOCK_BYTES)]
        return np.concatenate(blocks) if blocks else np.zeros(0, np.float32)

    def end(self) -> FloatSamples:
        """No more comes: what the resampler still holds, [n] at 24 kHz. Bytes that make no whole sample are dropped."""
        self._rest = b""
        return self._resampler.process(np.zeros(round(self.delay_s * self._resampler.from_hz), np.float32))

    def _decode(self, data: bytes) -> FloatSamples:
        data = self._rest + data
        whole = len(data) - len(data) % SAMPLE_BYTES[self._format]
        self._rest = data[whole:]
        if self._format == "s16":
            return self._resampler.process(to_float(np.frombuffer(data[:whole], "<i2")))
        samples = np.frombuffer(data[:whole], "<f4").clip(-1, 1)
        samples[~(np.abs(samples) >= _LEAST)] = 0  # NaN is not above anything
        return self._resampler.process(samples)


class PcmEncoder:
    """24 kHz to one stream of bytes; every chunk goes out whole. Not thread-safe.

    Args:
        format: of the samples.
        rate_hz: one of `resample.RATES_HZ`; else ValueError.
    """

    def __init__(self, format: SampleFormat, rate_hz: int) -> None:
        self._format = format
        self._resampler = Resampler(SAMPLE_RATE, rate_hz)

    @property
    def delay_s(self) -> float:
        """How much later a sound comes out than it went in."""
        return self._resampler.delay_s

    def encode(self, pcm: FloatSamples) -> bytes:
        """The next samples, [n] at 24 kHz. A frame of 80 ms makes as many bytes each time."""
        samples = self._resampler.process(pcm)
        return (to_int16(samples).astype("<i2") if self._format == "s16" else samples.astype("<f4")).tobytes()
