"""Decoders of codecs that code the waveform itself, sample by sample: G.711 and G.722.

None of their packets repairs another one, and none announces silence: that is comfort noise, a payload type of its own
(RFC 3389). What is missing is made of the last pitch period.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import numpy as np

from rtc_server.media.frames import SAMPLE_RATE, FloatSamples
from rtc_server.media.pitchloop import PAST_SAMPLES, RATE_HZ, PitchLoop
from rtc_server.media.resample import Resampler

SAMPLES_PER_BYTE = 3
"""At 24 kHz."""
_EASE_S = 0.0025
"""Over which an invented sound gives way to the real one."""


class PayloadError(ValueError):
    """A payload from which no sound can be made."""


class WaveformDecoder(ABC):
    """One stream of packets to mono samples at 24 kHz; a `concealment.AudioDecoder`. One thread.

    What is missing is made of the last pitch period, which fades within 60 ms.

    Args:
        rate_hz: of the codec's samples, 8000 or 16000. Either way there are 8000 bytes a second, 64 kb/s.
    """

    joins_packets = True

    def __init__(self, rate_hz: int) -> None:
        self._scale = rate_hz // RATE_HZ
        self._ease_in = np.linspace(0, 1, round(rate_hz * _EASE_S), endpoint=False, dtype=np.float32)
        self._resampler = Resampler(rate_hz, SAMPLE_RATE)
        self._heard: deque[FloatSamples] = deque()
        """The last packets' samples at the codec's rate, as many as `past` needs."""
        self._heard_samples = 0
        self._loop: PitchLoop | None = None

    @abstractmethod
    def _decoded(self, payload: bytes) -> FloatSamples:
        """A payload that is not empty, at the codec's rate; a new array."""

    def _bridge(self, loop: PitchLoop) -> None:  # noqa: B027
        """A gap is over that `loop` has filled up to its position; `past` is what was before it."""

    def decode(self, payload: bytes) -> FloatSamples:
        """The samples of the next packet, `SAMPLES_PER_BYTE`; a new array.

        Raises:
            PayloadError: the payload is empty; there is nothing else that could be wrong with one.
        """
        if not payload:
            raise PayloadError("cannot decode an empty packet")
        loop, self._loop = self._loop, None
        if loop is not None:
            self._bridge(loop)
        samples = self._decoded(payload)
        if loop is not None:
            eased = samples[: self._ease_in.size]
            eased += (loop.next(eased.size) - eased) * (1 - self._ease_in[: eased.size])
        self._remember(samples)
        return self._resampler.process(samples)

    def conceal(self, n_samples: int) -> FloatSamples:
        """Go on as the last packet sounded, fading. Gives `n_samples`, at most 2 more."""
        if self._loop is None:
            self._loop = PitchLoop(self.past, self._scale)
        return self._resampler.process(self._loop.next(-(-n_samples // SAMPLES_PER_BYTE) * self._scale))

    def recover(self, payload: bytes, n_samples: int) -> FloatSamples:
        """Raises: PayloadError, always; see `has_fec`."""
        raise PayloadError("these codecs repeat nothing of the packet before")

    def reset(self) -> None:
        """Forget the stream: what follows has nothing to do with what came before."""
        self._heard.clear()
        self._heard_samples = 0
        self._loop = None
        self._resampler.reset()

    @property
    def past(self) -> FloatSamples:
        """The last samples that were decoded, [scale * `PAST_SAMPLES`] at the codec's rate; at first silence."""
        size = self._scale * PAST_SAMPLES
        return np.concatenate((np.zeros(size, np.float32), *self._heard))[-size:]

    def _remember(self, samples: FloatSamples) -> None:
        """Joined only when they are needed: that is seldom, and packets are many."""
        heard = self._heard
        heard.append(samples)
        self._heard_samples += samples.size
        while self._heard_samples - heard[0].size >= self._scale * PAST_SAMPLES:
            self._heard_samples -= heard.popleft().size

    def duration_samples(self, payload: bytes) -> int:
        return SAMPLES_PER_BYTE * len(payload)

    def has_fec(self, payload: bytes) -> bool:
        return False

    def is_dtx(self, payload: bytes) -> bool:
        return False
