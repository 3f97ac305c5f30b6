"""Decoders that tests can see through."""

from __future__ import annotations

import numpy as np

from rtc_server.media.frames import FloatSamples

_SIGNS = np.random.default_rng(3).choice(np.array([-1, 1], np.float32), 65_536)


class CountingDecoder:
    """Every sample says which one it is: sample k of the stream has the magnitude k + 1 and a random sign.

    A payload is the position of its first sample (4 bytes), its number of samples (2) and whether it carries FEC (1).
    Random signs make it loud and without a pitch, so that there is no place for a splice. Concealment is 0.
    """

    joins_packets = False

    def __init__(self) -> None:
        self.resets = 0

    @staticmethod
    def payload(position: int, n_samples: int = 480, fec: bool = False) -> bytes:
        return position.to_bytes(4, "big") + n_samples.to_bytes(2, "big") + bytes([fec])

    @staticmethod
    def samples(position: int, n_samples: int) -> FloatSamples:
        numbers = np.arange(position, position + n_samples)
        return (_SIGNS[numbers % _SIGNS.size] * (numbers + 1)).astype(np.float32)

    @staticmethod
    def positions(pcm: FloatSamples) -> FloatSamples:
        """The positions of the samples that belong to a run of at least two, in order of playing."""
        magnitudes = np.abs(pcm)
        follows = np.diff(magnitudes) == 1
        in_run = np.concatenate((follows, [False])) | np.concatenate(([False], follows))
        return magnitudes[in_run & (magnitudes >= 1)] - 1

    def decode(self, payload: bytes) -> FloatSamples:
        if len(payload) != 7:
            raise ValueError("corrupt")
        return self.samples(int.from_bytes(payload[:4], "big"), int.from_bytes(payload[4:6], "big"))

    def conceal(self, n_samples: int) -> FloatSamples:
        return np.zeros(n_samples, np.float32)

    def recover(self, payload: bytes, n_samples: int) -> FloatSamples:
        position = int.from_bytes(payload[:4], "big")
        return self.samples(max(0, position - n_samples), n_samples)

    def reset(self) -> None:
        self.resets += 1

    def duration_samples(self, payload: bytes) -> int:
        return int.from_bytes(payload[4:6], "big") if len(payload) >= 6 else 0

    def has_fec(self, payload: bytes) -> bool:
        return len(payload) == 7 and payload[6] == 1

    def is_dtx(self, payload: bytes) -> bool:
        return False


class MulawDecoder:
    """G.711 mu-law, each sample three times: enough for streams whose time line is what matters."""

    joins_packets = True

    def __init__(self) -> None:
        code = ~np.arange(256, dtype=np.uint8)
        magnitude = (((code & 0x0F).astype(np.int32) << 3) + 0x84) << ((code >> 4) & 7)
        self._table = (np.where(code & 0x80, 0x84 - magnitude, magnitude - 0x84) / 32768).astype(np.float32)
        self._last = np.zeros(480, np.float32)

    def decode(self, payload: bytes) -> FloatSamples:
        self._last = np.repeat(self._table[np.frombuffer(payload, np.uint8)], 3)
        return self._last

    def conceal(self, n_samples: int) -> FloatSamples:
        return np.resize(self._last, n_samples)

    def recover(self, payload: bytes, n_samples: int) -> FloatSamples:
        raise ValueError("no FEC")

    def reset(self) -> None:
        self._last = np.zeros(480, np.float32)

    def duration_samples(self, payload: bytes) -> int:
        return 3 * len(payload)

    def has_fec(self, payload: bytes) -> bool:
        return False

    def is_dtx(self, payload: bytes) -> bool:
        return False
