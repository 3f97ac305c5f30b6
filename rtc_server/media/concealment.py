"""Sound for samples that did not come: what the decoder makes of the sound so far, faded to the room's noise."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rtc_server.media.frames import SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.timescale import BLOCK_SAMPLES, SpeechLevel, join

_FADE_AFTER = 100 * SAMPLES_PER_MS
_FADE = 60 * SAMPLES_PER_MS
_LOUDEST_NOISE = 1e-3
_NOTHING = np.zeros(0, np.float32)
_NOISE = np.random.default_rng(1).standard_normal(SAMPLE_RATE).astype(np.float32)


class AudioDecoder(Protocol):
    """One codec's stream to mono samples at 24 kHz. `OpusDecoder` is one."""

    joins_packets: bool
    """Packets that follow each other may be decoded as one, their payloads laid end to end."""

    def decode(self, payload: bytes) -> FloatSamples:
        """A new array. Raises ValueError for a corrupt payload, and goes on with the next one."""

    def conceal(self, n_samples: int) -> FloatSamples:
        """At least `n_samples` of sound that goes on from the last packet."""

    def recover(self, payload: bytes, n_samples: int) -> FloatSamples:
        """At least `n_samples` that came before `payload`, out of it; asked for where `has_fec`. Raises ValueError."""

    def reset(self) -> None: ...

    def duration_samples(self, payload: bytes) -> int:
        """0 for a payload that is none of this codec."""

    def has_fec(self, payload: bytes) -> bool: ...

    def is_dtx(self, payload: bytes) -> bool:
        """The sender says that silence follows."""


class Concealer:
    """Fills one gap after the other. What the decoder made beyond a gap's end is kept to crossfade out of it."""

    def __init__(self, decoder: AudioDecoder, level: SpeechLevel) -> None:
        self._decoder = decoder
        self._level = level
        self.agreed_level: float | None = None
        """Root mean square of the noise that stands for announced silence; None where the decoder makes its own."""
        self._beyond = _NOTHING
        self._run = 0
        self._silence = False
        self._noise_at = 0

    def change_decoder(self, decoder: AudioDecoder) -> None:
        """The codec of the stream has changed."""
        self._decoder = decoder

    def fill(self, n_samples: int, silence: bool) -> FloatSamples:
        """The next `n_samples` of a gap; `silence` when the sender has announced it: then nothing is faded."""
        start, self._run, self._silence = self._run, self._run + n_samples, silence
        if not silence and start >= _FADE_AFTER + _FADE:
            self._beyond = _NOTHING
            return self._noise(n_samples) * self._noise_level
        if silence and self.agreed_level is not None:
            return self._agreed_noise(n_samples, begins=start == 0)
        sound = self._beyond
        if sound.size < n_samples + BLOCK_SAMPLES:
            sound = np.concatenate((sound, self._decoder.conceal(n_samples + BLOCK_SAMPLES - sound.size)))
        filled, self._beyond = sound[:n_samples], sound[n_samples:]
        if silence or self._run <= _FADE_AFTER:
            return filled
        gain = _gain(np.arange(start, start + n_samples))
        mixed: FloatSamples = filled * gain + self._noise(n_samples) * (1 - gain) * self._noise_level
        return mixed

    def continuation(self) -> FloatSamples:
        """How the concealment would go on for 2.5 ms; empty where none is running."""
        if self._run == 0:
            return _NOTHING
        if not self._beyond.size:
            return np.zeros(BLOCK_SAMPLES, np.float32)
        if self._silence:
            return self._beyond[:BLOCK_SAMPLES]
        return self._beyond[:BLOCK_SAMPLES] * _gain(np.array([self._run]))

    def end(self) -> None:
        """Real sound has come again."""
        self._run, self._beyond = 0, _NOTHING

    def _agreed_noise(self, n_samples: int, begins: bool) -> FloatSamples:
        noise: FloatSamples = self._noise(n_samples + BLOCK_SAMPLES) * np.float32(self.agreed_level)
        if begins:
            join(self._decoder.conceal(BLOCK_SAMPLES)[:BLOCK_SAMPLES], noise)
        else:
            join(self._beyond, noise)
        self._beyond = noise[n_samples:]
        return noise[:n_samples]

    @property
    def _noise_level(self) -> np.float32:
        return np.float32(min(self._level.floor**0.5, _LOUDEST_NOISE))

    def _noise(self, n_samples: int) -> FloatSamples:
        if self._noise_at + n_samples > _NOISE.size:
            self._noise_at = 0
        start, self._noise_at = self._noise_at, self._noise_at + n_samples
        return np.resize(_NOISE[start : start + n_samples], n_samples)


def _gain(into_gap: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FloatSamples:
    gain: FloatSamples = np.clip(1 - (into_gap - _FADE_AFTER) / _FADE, 0, 1).astype(np.float32)
    return gain
