"""What a call's microphone hears, as Opus payloads of 20 ms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtc_server.bench.signals import PACKET_SAMPLES, SAMPLE_RATE
from rtc_server.media.opus import OpusDecoder, OpusEncoder

FIRST_EXPECTED_LOSS_PCT = 5
MOST_EXPECTED_LOSS_PCT = 20
COMPLEXITY = 5
_REPORT_WEIGHT = 0.1
"""Of one report a second: a browser forgets loss over about 10 s."""
_ROOM_AMPLITUDE = 1e-3

Samples = NDArray[np.float32]


class Voice(Protocol):
    """Called on the loop's thread."""

    def agreed(self, bitrate_bps: int) -> None:
        """The call is about to begin; the answer asks for so much."""

    def next_payload(self) -> bytes:
        """The next 20 ms."""

    def loss_reported(self, loss: float) -> None:
        """The server's report: the share (0..1) of packets that it lost since the report before."""


class LoopVoice:
    """Payloads encoded beforehand, over and over; shared by any number of calls."""

    def __init__(self, payloads: Sequence[bytes], offset_packets: int = 0) -> None:
        self._payloads = payloads
        self._at = offset_packets

    def agreed(self, bitrate_bps: int) -> None:
        """The payloads are what they are."""

    def next_payload(self) -> bytes:
        payload = self._payloads[self._at % len(self._payloads)]
        self._at += 1
        return payload

    def loss_reported(self, loss: float) -> None:
        """The payloads are what they are."""


class SpeakingVoice:
    """Encodes as a browser does: speech codec, in-band FEC for the loss that is reported, smoothed over 10 s.

    Between what it is told to `say` it sends the faint noise of a room. Everything that was sent is kept, to compare
    with what was heard; so it is for runs of minutes.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._encoder = OpusEncoder(SAMPLE_RATE, complexity=COMPLEXITY, expected_loss_pct=FIRST_EXPECTED_LOSS_PCT)
        self._loss = FIRST_EXPECTED_LOSS_PCT / 100
        self._saying: Samples = np.empty(0, np.float32)
        self._sent: list[bytes] = []

    def agreed(self, bitrate_bps: int) -> None:
        self._encoder.set_bitrate(bitrate_bps)

    def say(self, speech: Samples) -> int:
        """Begin with the next packet, in the place of whatever is being said; mono at 24 kHz, [n].

        Returns:
            The position of its first sample in the stream.
        """
        self._saying = speech
        return len(self._sent) * PACKET_SAMPLES

    @property
    def silent(self) -> bool:
        """Everything has been said."""
        return not self._saying.size

    def next_payload(self) -> bytes:
        pcm = (self._random.standard_normal(PACKET_SAMPLES) * _ROOM_AMPLITUDE).astype(np.float32)
        said, self._saying = self._saying[:PACKET_SAMPLES], self._saying[PACKET_SAMPLES:]
        pcm[: said.size] += said
        self._sent.append(self._encoder.encode(pcm))
        return self._sent[-1]

    def loss_reported(self, loss: float) -> None:
        self._loss += _REPORT_WEIGHT * (loss - self._loss)
        percent = min(max(round(100 * self._loss), 1), MOST_EXPECTED_LOSS_PCT)
        self._encoder.set_expected_loss(percent)

    def clean(self) -> Samples:
        """All that was sent as a perfect network would have carried it: [n] at 24 kHz."""
        decoder = OpusDecoder(SAMPLE_RATE)
        return np.concatenate([decoder.decode(payload) for payload in self._sent] or [np.empty(0, np.float32)])
