"""What a phone says, and how much of what it hears is the same, half second by half second.

Two things are compared with what was said: the packets that leave our server, which show what it does to sound, and the
recording of the phone, whose own buffer comes on top.
"""

from __future__ import annotations

import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtc_server.bench.alignment import align
from tests.e2e.speech import Pcm, resampled

ALIKE = 0.99
SETTLING_PARTS = 2
"""Half seconds at the beginning of a call in which jitter buffers on both sides find out how late packets come: they
grow, and they cut out what a phone's first packets, which come all at once or late, have left in them."""
SETTLED_S = 1.25
"""From then on nothing of that is left."""
MOST_GROWN = 3
"""So often may the delay of what our server sends grow from then on. It never does where a machine keeps time; where
programs share one, a packet is late now and then by more than its slot waits for it. What such a packet has added goes
again in as many small steps as there are places for them, so the way back is not counted."""
SPOILT_BY_PHONE = 1
"""Half seconds of a recording: the buffer of a phone moves by itself, by a packet of 20 ms, and may make up sound where
it does, while what we send stands still, as packets on the wire show."""
_ALIGNED_HZ = 24_000
_PART_SAMPLES = _ALIGNED_HZ // 2
_LEAST_LAG_SAMPLES, _MOST_LAG_SAMPLES = -3 * _ALIGNED_HZ, 2 * _ALIGNED_HZ
"""A recording may begin after what was said did."""
_STEP_SAMPLES = round(0.025 * _ALIGNED_HZ)
"""Before and behind a step of the delay sound is made up or joined: a packet of 20 ms, and a fade of 5 ms."""
_LATE_SAMPLES = round(0.15 * _ALIGNED_HZ)
"""Before the delay grows, sound was made up for what was late."""
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
    """Of what came back to what was said, for each half second between the first and the last sound that was heard."""

    parts: list[float]
    """Correlation, -1..1, where the delay stands still; 0 where it hardly ever does."""
    lags_ms: list[float]
    """In the middle of each."""
    grown_s: list[float]
    """When the delay grew, from the first sound that was heard."""
    shrunk_s: list[float]
    """When it became shorter."""

    def assert_still(self, seconds: float) -> None:
        """For what our server sends: each half second of the first `seconds` that were heard is what was said, when the
        call has settled, and the delay does not grow. Keys that are pressed later replace sound."""
        assert min(self._settled_parts(seconds)) >= ALIKE, str(self)
        assert sum(SETTLED_S <= grown_s < seconds for grown_s in self.grown_s) <= MOST_GROWN, str(self)

    def assert_heard(self, seconds: float) -> None:
        """For what a phone recorded: the same, as far as its own buffer lets it be."""
        assert sorted(self._settled_parts(seconds))[SPOILT_BY_PHONE] >= ALIKE, str(self)

    def _settled_parts(self, seconds: float) -> list[float]:
        parts = self.parts[: round(2 * seconds)]
        assert len(parts) == round(2 * seconds), f"only {len(parts) / 2} s of {seconds} s came back: {self}"
        return parts[SETTLING_PARTS:]

    def __str__(self) -> str:
        parts = (f"{part:.4f} at {lag_ms:.0f} ms" for part, lag_ms in zip(self.parts, self.lags_ms, strict=True))
        return f"{', '.join(parts)}; the delay grew {_times(self.grown_s)} and shrank {_times(self.shrunk_s)}"


def _times(times_s: list[float]) -> str:
    return f"at {', '.join(f'{time_s:.2f} s' for time_s in times_s)}" if times_s else "never"


def likeness(said: Pcm, said_hz: int, heard: Pcm, heard_hz: int) -> Likeness:
    """Jitter buffers grow and shrink on both sides. Where they do sound is stretched or made up, and not compared."""
    clean = resampled(said, said_hz, _ALIGNED_HZ)
    audible = np.flatnonzero(np.abs(heard) > _AUDIBLE)
    if not audible.size:
        return Likeness([], [], [], [])
    began = int(audible[0]) * _ALIGNED_HZ // heard_hz
    found = resampled(heard[audible[0] : audible[-1] + 1], heard_hz, _ALIGNED_HZ)
    alignment = align(clean, found, _LEAST_LAG_SAMPLES - began, _MOST_LAG_SAMPLES - began)
    wanted, still = alignment.reference(clean), np.ones(found.size, np.bool_)
    change = np.diff(alignment.lags)
    for step in np.flatnonzero(change):
        before = _LATE_SAMPLES if change[step] > 0 else _STEP_SAMPLES
        still[max(0, step - before) : step + _STEP_SAMPLES] = False
    parts: list[float] = []
    lags_ms: list[float] = []
    for begin in range(0, found.size - _PART_SAMPLES + 1, _PART_SAMPLES):
        part = slice(begin, begin + _PART_SAMPLES)
        parts.append(_correlation(wanted[part], found[part], still[part]))
        lags_ms.append(1000 * float(alignment.lags[begin + _PART_SAMPLES // 2] + began) / _ALIGNED_HZ)
    grown_s, shrunk_s = (np.flatnonzero(stepped) / _ALIGNED_HZ for stepped in (change > 0, change < 0))
    return Likeness(parts, lags_ms, grown_s.tolist(), shrunk_s.tolist())


def _correlation(wanted: Pcm, found: Pcm, still: NDArray[np.bool_]) -> float:
    """Where it is `still`. The delay is known to a sample of 24 kHz; how it lies between two of them is fitted here."""
    if np.count_nonzero(still) < _PART_SAMPLES / 2:
        return 0.0
    near = np.stack([np.roll(wanted, shift)[still] for shift in (-1, 0, 1)], axis=1)
    heard = found[still]
    fitted = near @ np.linalg.lstsq(near, heard, rcond=None)[0]
    return float(np.corrcoef(fitted, heard)[0, 1]) if fitted.any() and heard.any() else 0.0


def likeness_of(said: Path, heard: Path) -> Likeness:
    """Of two WAV files."""
    return likeness(*read_wav(said), *read_wav(heard))
