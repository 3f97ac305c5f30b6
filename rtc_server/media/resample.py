"""Streaming sample rate conversion between the rates of speech: 48, 24, 16 and 8 kHz.

A polyphase FIR low-pass: conceptually the input is raised to ``up`` times its rate with zeros, filtered, and every
``down``-th sample kept. Of that, one matrix product computes what matters. The filter is a Kaiser-windowed sinc that
reaches its stop band at half the lower of the two rates, so nothing folds back: pass band to 0.42 of the lower rate
(6.7 kHz at 16 kHz, ripple below 0.01 dB), stop band 79 dB down from 0.5 on. Of telephony, 3.4 kHz at 8 kHz loses
0.02 dB and 7 kHz at 16 kHz 0.4 dB.

It is linear-phase: every frequency is delayed by the same `DELAY_LOW_RATE_SAMPLES` samples of the lower rate, which is
2 ms where 16 kHz is the lower one, and 4 ms where it is 8 kHz.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RATES_HZ = (8_000, 16_000, 24_000, 48_000)
DELAY_LOW_RATE_SAMPLES = 32
"""Half the filter's length, in samples of the lower rate."""
_KAISER_BETA = 7.86  # 79 dB in the stop band
_CUTOFF = 0.46  # of the lower rate: the middle of the transition band, which ends at 0.5
_BLOCK = 48  # samples of the higher rate that one row of the matrix product makes, or takes


class _Usual(NamedTuple):
    """Views of one piece of memory."""

    past: NDArray[np.float32]
    chunk: NDArray[np.float32]
    end: NDArray[np.float32]
    """The past of the chunk to come. It may overlap with `past`."""
    windows: NDArray[np.float32]


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
        self._matrix, self._past = _block(self._up, self._down)
        self._periods = self._matrix.shape[1] // self._up
        self._step = self._periods * self._down
        self._usual: _Usual | None = None
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
        self._history = np.zeros(self._past, np.float32)
        """What the filter still looks back on, and the inputs of a period that has begun."""

    def process(self, pcm: NDArray[np.float32]) -> NDArray[np.float32]:
        """The next chunk, [n] -> [about n * to / from]. The result is a new array, also where the rates are equal."""
        if self.from_hz == self.to_hz:
            return np.array(pcm, np.float32)
        if len(self._history) == self._past and len(pcm) % self._step == 0 and len(pcm):
            return self._process_usual(pcm)
        begun = len(self._history) - self._past
        consumed = begun + len(pcm)
        first, until = -(-begun * self._up // self._down), -(-consumed * self._up // self._down)
        blocks = -(-until // (self._periods * self._up))
        unfilled = np.zeros(max(0, blocks * self._step - consumed), np.float32)
        signal = np.concatenate((self._history, pcm, unfilled), dtype=np.float32)
        self._history = signal[consumed // self._down * self._down : self._past + consumed].copy()
        out: NDArray[np.float32] = self._windows(signal, blocks).dot(self._matrix)
        return out.reshape(-1)[first:until]

    def _process_usual(self, pcm: NDArray[np.float32]) -> NDArray[np.float32]:
        """A chunk of whole blocks, as every packet is: all in memory that the chunk before has left."""
        usual = self._usual
        if usual is None or usual.chunk.size != len(pcm):
            signal = np.empty(self._past + len(pcm), np.float32)
            usual = self._usual = _Usual(
                past=signal[: self._past],
                chunk=signal[self._past :],
                end=signal[len(pcm) :],
                windows=self._windows(signal, len(pcm) // self._step),
            )
        usual.past[:] = self._history
        usual.chunk[:] = pcm
        self._history = usual.end
        # Not `matmul`: `dot` copies the overlapping windows apart by itself, and is twice as fast on matrices so small.
        out: NDArray[np.float32] = usual.windows.dot(self._matrix)
        return out.reshape(-1)

    def _windows(self, signal: NDArray[np.float32], blocks: int) -> NDArray[np.float32]:
        """What each block is made of: rows that overlap, [blocks, inputs]."""
        width = signal.itemsize
        return np.ndarray((blocks, len(self._matrix)), np.float32, signal, strides=(self._step * width, width))


@functools.cache
def _block(up: int, down: int) -> tuple[NDArray[np.float32], int]:
    """Several periods of the two rates at once: a matrix [inputs, outputs], and how many of the inputs are past ones.

    A period is `down` inputs and `up` outputs. A large block makes few and long products, a small one has fewer
    products with zeros in it.
    """
    phases = _polyphase(up, down)
    taps = phases.shape[1]
    periods = _BLOCK // max(up, down)
    matrix = np.zeros((taps - 1 + periods * down, periods * up), np.float32)
    for output in range(periods * up):
        newest, phase = divmod(output * down, up)
        matrix[newest : newest + taps, output] = phases[phase]
    return matrix, taps - 1


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
