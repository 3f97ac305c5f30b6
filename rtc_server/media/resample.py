"""Streaming sample rate conversion between the rates of speech: 48, 24, 16 and 8 kHz.

A polyphase FIR low-pass: conceptually the input is raised to ``up`` times its rate with zeros, filtered, and every
``down``-th sample kept; only the products that matter are computed. The filter is a Kaiser-windowed sinc that reaches
its stop band at half the lower of the two rates, so nothing folds back: pass band to about 0.42 of the lower rate
(6.7 kHz at 16 kHz, ripple below 0.01 dB), stop band 79 dB down from 0.5 on.

It is linear-phase: every frequency is delayed by the same `DELAY_LOW_RATE_SAMPLES` samples of the lower rate, which is
2 ms where 16 kHz is the lower one.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

RATES_HZ = (8_000, 16_000, 24_000, 48_000)
DELAY_LOW_RATE_SAMPLES = 32
"""Half the filter's length, in samples of the lower rate."""
_KAISER_BETA = 7.86  # 79 dB in the stop band
_CUTOFF = 0.46  # of the lower rate: the middle of the transition band, which ends at 0.5


class Resampler:
    """One mono stream from one rate to another; keeps the filter's history between chunks.

    Any chunk length is fine: over the whole stream, after n samples of input exactly ceil(n * to / from) have come out,
    so 1920 samples at 24 kHz always make 1280 at 16 kHz. Not thread-safe.
    """

    def __init__(self, from_hz: int, to_hz: int) -> None:
        """Raises: ValueError for a rate that is not in `RATES_HZ`."""
        for rate in (from_hz, to_hz):
            if rate not in RATES_HZ:
                raise ValueError(f"cannot resample {from_hz} Hz to {to_hz} Hz: {rate} is not one of {RATES_HZ}")
        common = math.gcd(from_hz, to_hz)
        self.from_hz = from_hz
        self.to_hz = to_hz
        self._up = to_hz // common
        self._down = from_hz // common
        self._phases = _polyphase(self._up, self._down)  # [up, taps]
        self._taps = self._phases.shape[1]
        self.reset()

    @property
    def delay_s(self) -> float:
        """How much later a sound comes out than it went in."""
        return 0.0 if self.from_hz == self.to_hz else DELAY_LOW_RATE_SAMPLES / min(self.from_hz, self.to_hz)

    @property
    def delay_samples(self) -> int:
        """The same in samples of the output rate; always whole."""
        return round(self.delay_s * self.to_hz)

    def reset(self) -> None:
        """Forget the stream: the next chunk begins after silence."""
        self._history = np.zeros(self._taps - 1, np.float32)
        self._consumed = 0  # input samples, modulo one period of the two rates
        self._produced = 0

    def process(self, pcm: NDArray[np.float32]) -> NDArray[np.float32]:
        """The next chunk, [n] -> [about n * to / from]. The result is a new array, also where the rates are equal."""
        if self.from_hz == self.to_hz:
            return np.array(pcm, np.float32)
        if not len(pcm):
            return np.zeros(0, np.float32)
        signal = np.concatenate((self._history, pcm), dtype=np.float32)
        self._history = signal[len(signal) - self._taps + 1 :]
        consumed = self._consumed + len(pcm)
        until = -(-consumed * self._up // self._down)
        out = np.empty(until - self._produced, np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(signal, self._taps)
        for offset in range(min(self._up, len(out))):
            # Outputs `up` apart share a filter phase, and their inputs lie `down` apart.
            position = (self._produced + offset) * self._down
            first = position // self._up - self._consumed
            part = out[offset :: self._up]
            inputs = windows[first :: self._down][: len(part)]
            # Overlapping windows are copied apart first: on contiguous rows the product is four times as fast.
            np.matmul(np.ascontiguousarray(inputs), self._phases[position % self._up], out=part)
        periods = consumed // self._down
        self._consumed = consumed - periods * self._down
        self._produced = until - periods * self._up
        return out


@functools.cache
def _polyphase(up: int, down: int) -> NDArray[np.float32]:
    """Filter phases [up, taps], each reversed so that a window of the input can be multiplied from old to new."""
    half = DELAY_LOW_RATE_SAMPLES * max(up, down)  # at the raised rate
    time = np.arange(-half, half + 1)
    cutoff = _CUTOFF / max(up, down)
    prototype = 2 * cutoff * np.sinc(2 * cutoff * time) * np.kaiser(2 * half + 1, _KAISER_BETA)
    prototype *= up / prototype.sum()
    taps = -(-len(prototype) // up)
    padded = np.zeros(taps * up)
    padded[: len(prototype)] = prototype
    phases = padded.reshape(taps, up).T[:, ::-1]
    return np.ascontiguousarray(phases, np.float32)
