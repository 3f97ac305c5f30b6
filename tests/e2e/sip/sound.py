"""What a phone says, and how much of what it hears is the same, half second by half second."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rtc_server.bench.alignment import align
from tests.e2e.speech import Pcm, resampled

ALIKE = 0.99
_ALIGNED_HZ = 24_000
_PART_SAMPLES = _ALIGNED_HZ // 2
_LEAST_LAG_SAMPLES, _MOST_LAG_SAMPLES = -_ALIGNED_HZ, 2 * _ALIGNED_HZ
"""A recording may begin after what was said did."""
_CHIRP_S = 0.1
_AUDIBLE = 0.02


def voice(seconds: float, rate_hz: int, seed: int = 1) -> Pcm:
    """Overlapping chirps between 350 and 3200 Hz: never silent, never the same, and within what a phone carries."""
    random = np.random.default_rng(seed)
    chirp_samples = round(_CHIRP_S * rate_hz)
    time_s = np.arange(chirp_samples) / rate_hz
    sound = np.zeros(round(seconds * rate_hz))
    for begin in range(0, len(sound) - chirp_samples, chirp_samples // 2):
        start_hz, end_hz = random.uniform(350, 3200, size=2)
        phase = 2 * np.pi * (start_hz * time_s + (end_hz - start_hz) / (2 * _CHIRP_S) * time_s**2)
        sound[begin : begin + chirp_samples] += np.sin(phase) * np.hanning(chirp_samples)
    return (0.35 * sound).astype(np.float32)


def write_wav(path: Path, pcm: Pcm, rate_hz: int) -> Path:
    """16 bits, mono."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes((np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes())
    return path


def read_wav(path: Path) -> tuple[Pcm, int]:
    """The first channel, and the rate in Hz. A program that was ended by force has left the length in the header 0."""
    data = path.read_bytes()
    channels, rate_hz = int.from_bytes(data[22:24], "little"), int.from_bytes(data[24:28], "little")
    begin = data.index(b"data") + 8
    samples = np.frombuffer(data[begin : begin + (len(data) - begin) // 2 * 2], "<i2")
    return samples[: samples.size // channels * channels : channels].astype(np.float32) / 32768, rate_hz


@dataclass(frozen=True, slots=True)
class Likeness:
    """Of what came back to what was said."""

    parts: list[float]
    """Correlation of each half second between the first and the last sound that was heard, -1..1."""
    lags_ms: list[float]
    """In the middle of each."""

    def assert_alike(self, seconds: float) -> None:
        """The first `seconds` that were heard are what was said. Keys that are pressed later replace sound."""
        assert len(self.parts) >= 2 * seconds, f"only {len(self.parts) / 2} s of {seconds} s came back: {self}"
        assert min(self.parts[: round(2 * seconds)]) >= ALIKE, str(self)

    def __str__(self) -> str:
        return ", ".join(f"{part:.4f} at {lag:.0f} ms" for part, lag in zip(self.parts, self.lags_ms, strict=True))


def likeness(said: Pcm, said_hz: int, heard: Pcm, heard_hz: int) -> Likeness:
    """The delay may move, as a phone's own buffer grows and shrinks."""
    clean = resampled(said, said_hz, _ALIGNED_HZ)
    found = resampled(heard, heard_hz, _ALIGNED_HZ)
    audible = np.flatnonzero(np.abs(found) > _AUDIBLE)
    if not audible.size:
        return Likeness([], [])
    found = found[audible[0] : audible[-1] + 1]
    alignment = align(clean, found, _LEAST_LAG_SAMPLES - int(audible[0]), _MOST_LAG_SAMPLES - int(audible[0]))
    wanted = alignment.reference(clean)
    parts, lags_ms = [], []
    for begin in range(0, found.size - _PART_SAMPLES + 1, _PART_SAMPLES):
        end = begin + _PART_SAMPLES
        same = np.corrcoef(wanted[begin:end], found[begin:end])[0, 1] if wanted[begin:end].any() else 0.0
        parts.append(float(same))
        lag_samples = int(alignment.lags[begin + _PART_SAMPLES // 2]) + int(audible[0])
        lags_ms.append(1000 * lag_samples / _ALIGNED_HZ)
    return Likeness(parts, lags_ms)


def likeness_of(said: Path, heard: Path) -> Likeness:
    """Of two WAV files."""
    return likeness(*read_wav(said), *read_wav(heard))
