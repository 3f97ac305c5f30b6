from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.concealment import Concealer
from rtc_server.media.frames import FRAME_SAMPLES, FloatSamples
from rtc_server.media.opus import OpusDecoder
from rtc_server.media.timescale import SpeechLevel
from tests.media.decoders import CountingDecoder


class Humming(CountingDecoder):
    """Conceals with a count, so that every sample tells its place."""

    def __init__(self) -> None:
        super().__init__()
        self.hummed = 0

    def conceal(self, n_samples: int) -> FloatSamples:
        start, self.hummed = self.hummed, self.hummed + -(-n_samples // 60) * 60
        return np.arange(start, self.hummed, dtype=np.float32)


def test_pieces_of_a_gap_join_without_a_seam() -> None:
    concealer = Concealer(Humming(), SpeechLevel())
    pieces = [concealer.fill(n_samples, silence=False) for n_samples in (7, 480, 61, 900)]
    np.testing.assert_array_equal(np.concatenate(pieces), np.arange(1448))
    np.testing.assert_array_equal(concealer.continuation(), np.arange(1448, 1508))


def test_announced_silence_is_not_faded() -> None:
    concealer = Concealer(Humming(), SpeechLevel())
    np.testing.assert_array_equal(concealer.fill(4 * FRAME_SAMPLES, silence=True), np.arange(4 * FRAME_SAMPLES))


def test_long_gap_fades_to_noise_without_asking_the_decoder_on() -> None:
    decoder, level = Humming(), SpeechLevel()
    concealer = Concealer(decoder, level)
    concealer.fill(2 * FRAME_SAMPLES, silence=False)
    asked = decoder.hummed
    noise = np.concatenate([concealer.fill(FRAME_SAMPLES, silence=False) for _ in range(50)])
    assert decoder.hummed == asked
    assert 0 < noise.std() <= 1.1 * level.floor**0.5
    assert not concealer.continuation().any()


def test_ended_gap_has_no_continuation_and_the_next_begins_anew() -> None:
    decoder = Humming()
    concealer = Concealer(decoder, SpeechLevel())
    assert concealer.continuation().size == 0
    concealer.fill(100, silence=False)
    concealer.end()
    assert concealer.continuation().size == 0
    assert concealer.fill(10, silence=False)[0] == decoder.hummed - 120


def test_agreed_noise_takes_over_from_the_decoder_and_goes_on_evenly() -> None:
    decoder = Humming()
    concealer = Concealer(decoder, SpeechLevel())
    concealer.agreed_level = 0.01
    noise = np.concatenate([concealer.fill(n_samples, silence=True) for n_samples in (7, 480, 1920, 40_000)])
    assert decoder.hummed == 60
    assert noise[60:].std() == pytest.approx(0.01, rel=0.05)
    assert concealer.continuation().std() == pytest.approx(0.01, rel=0.5)
    concealer.agreed_level = None
    concealer.end()
    assert concealer.fill(10, silence=True)[0] == 60


def test_opus_is_a_decoder() -> None:
    assert Concealer(OpusDecoder(), SpeechLevel()).fill(1000, silence=False).shape == (1000,)
