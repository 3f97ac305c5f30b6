"""The log-mel spectrogram that Whisper listens to, in numpy.

Frames of 25 ms every 10 ms at 16 kHz, Hann window, Slaney mel bands, log10, the loudest 80 dB, scaled to about [-1, 1].
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE_HZ = 16_000
HOP_SAMPLES = 160
WINDOW_SAMPLES = 400
FRAMES_PER_S = SAMPLE_RATE_HZ // HOP_SAMPLES

_LINEAR_HZ_PER_MEL = 200.0 / 3.0
_LOG_FROM_HZ = 1000.0
_LOG_STEP = np.log(6.4) / 27.0


def log_mel(pcm: NDArray[np.float32], frames: int, bands: int = 80) -> NDArray[np.float32]:
    """Features [bands, frames] of mono 16 kHz samples, padded with silence or cut to `frames` times 10 ms."""
    samples = np.zeros(frames * HOP_SAMPLES, np.float32)
    length = min(len(pcm), len(samples))
    samples[:length] = pcm[:length]
    padded = np.pad(samples, WINDOW_SAMPLES // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_SAMPLES)[::HOP_SAMPLES][:frames]
    spectrum = np.fft.rfft(windows * _hann(), axis=1)
    power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32)  # [frames, 201]
    log = np.log10(np.maximum(power @ _mel_filters(bands), 1e-10))
    log = np.maximum(log, log.max() - 8.0)
    return np.ascontiguousarray((log.T + 4.0) / 4.0, np.float32)


@functools.cache
def _hann() -> NDArray[np.float32]:
    return np.hanning(WINDOW_SAMPLES + 1)[:-1].astype(np.float32)


@functools.cache
def _mel_filters(bands: int) -> NDArray[np.float32]:
    """Triangles of equal area on the Slaney mel scale, [201, bands]."""
    bins_hz = np.linspace(0.0, SAMPLE_RATE_HZ / 2, WINDOW_SAMPLES // 2 + 1)
    edges_hz = _mel_to_hz(np.linspace(0.0, _hz_to_mel(SAMPLE_RATE_HZ / 2), bands + 2))
    widths = np.diff(edges_hz)
    ramps = edges_hz[:, None] - bins_hz[None, :]
    rising = -ramps[:-2] / widths[:-1, None]
    falling = ramps[2:] / widths[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    triangles *= (2.0 / (edges_hz[2:] - edges_hz[:-2]))[:, None]
    return np.ascontiguousarray(triangles.T, np.float32)


def _hz_to_mel(hz: float) -> float:
    return float(_LOG_FROM_HZ / _LINEAR_HZ_PER_MEL + np.log(hz / _LOG_FROM_HZ) / _LOG_STEP)


def _mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    break_mel = _LOG_FROM_HZ / _LINEAR_HZ_PER_MEL
    return np.where(mel >= break_mel, _LOG_FROM_HZ * np.exp(_LOG_STEP * (mel - break_mel)), mel * _LINEAR_HZ_PER_MEL)
