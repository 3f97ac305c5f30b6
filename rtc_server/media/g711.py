"""G.711: telephone speech, one byte a sample at 8 kHz, by two laws; to and from the engine's 24 kHz.

Each direction adds the resampler's delay of 4 ms. There is nothing in a G.711 packet that repairs another one, and no
word for silence: that is comfort noise, a payload type of its own (RFC 3551 section 4.5.14, RFC 3389).
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rtc_server.media.frames import SAMPLE_RATE, FloatSamples
from rtc_server.media.pitchloop import PAST_SAMPLES, PitchLoop
from rtc_server.media.resample import Resampler

Law = Literal["PCMU", "PCMA"]

RATE_HZ = 8000
_RATIO = SAMPLE_RATE // RATE_HZ
_FULL_SCALE = 32_768
_EASE_SAMPLES = 20
"""2.5 ms: over which an invented sound gives way to the real one."""
_EASE_IN = np.linspace(0, 1, _EASE_SAMPLES, endpoint=False, dtype=np.float32)


class G711Error(ValueError):
    """A payload that is no G.711."""


class G711Decoder:
    """One stream of PCMU or PCMA packets to mono samples at 24 kHz; a `concealment.AudioDecoder`.

    What is missing is made of the last pitch period, which fades within 60 ms. One thread.
    """

    def __init__(self, law: Law) -> None:
        self._levels = levels(law)
        self._resampler = Resampler(RATE_HZ, SAMPLE_RATE)
        self._past = np.zeros(PAST_SAMPLES, np.float32)
        self._loop: PitchLoop | None = None

    def decode(self, payload: bytes) -> FloatSamples:
        """The samples of the next packet, three a byte; a new array.

        Raises:
            G711Error: the payload is empty; there is nothing else that could be wrong with one.
        """
        if not payload:
            raise G711Error("cannot decode an empty packet")
        samples = self._levels[np.frombuffer(payload, np.uint8)]
        if self._loop is not None:
            eased = samples[:_EASE_SAMPLES]
            eased += (self._loop.next(eased.size) - eased) * (1 - _EASE_IN[: eased.size])
            self._loop = None
        self._past = np.concatenate((self._past, samples))[-PAST_SAMPLES:]
        return self._resampler.process(samples)

    def conceal(self, n_samples: int) -> FloatSamples:
        """Go on as the last packet sounded, fading. Gives `n_samples`, rounded up to a multiple of 3."""
        if self._loop is None:
            self._loop = PitchLoop(self._past)
        return self._resampler.process(self._loop.next(-(-n_samples // _RATIO)))

    def recover(self, payload: bytes, n_samples: int) -> FloatSamples:
        """Raises: G711Error, always; see `has_fec`."""
        raise G711Error("G.711 repeats nothing of the packet before")

    def reset(self) -> None:
        """Forget the stream: what follows has nothing to do with what came before."""
        self._past = np.zeros(PAST_SAMPLES, np.float32)
        self._loop = None
        self._resampler.reset()

    def duration_samples(self, payload: bytes) -> int:
        return _RATIO * len(payload)

    def has_fec(self, payload: bytes) -> bool:
        return False

    def is_dtx(self, payload: bytes) -> bool:
        return False


class G711Encoder:
    """Mono samples at 24 kHz to PCMU or PCMA; a `codecs.AudioEncoder`. One thread."""

    def __init__(self, law: Law) -> None:
        self._codes = _nearest_codes(law)
        self._resampler = Resampler(SAMPLE_RATE, RATE_HZ)

    def encode(self, pcm: FloatSamples) -> bytes:
        """A byte for every three samples of `pcm`, float32 in [-1, 1]; what is louder is clipped. Never empty."""
        samples = self._resampler.process(pcm)
        scaled = np.clip(np.rint(samples * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1).astype(np.int32)
        return self._codes[scaled + _FULL_SCALE].tobytes()

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
