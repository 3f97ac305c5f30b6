from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.media.resample import RATES_HZ, Resampler

PAIRS = [pair for pair in itertools.product(RATES_HZ, RATES_HZ) if pair[0] != pair[1]]


def tone(rate_hz: int, tone_hz: float, seconds: float = 0.5) -> np.ndarray:
    return np.sin(2 * np.pi * tone_hz * np.arange(round(rate_hz * seconds)) / rate_hz).astype(np.float32)


def level_db(pcm: np.ndarray) -> float:
    return float(20 * np.log10(np.sqrt(np.mean(pcm**2)) + 1e-12))


@pytest.mark.parametrize(("from_hz", "to_hz"), PAIRS)
def test_a_tone_comes_out_the_same_but_later_by_the_stated_delay(from_hz: int, to_hz: int) -> None:
    tone_hz = 0.2 * min(from_hz, to_hz)
    resampler = Resampler(from_hz, to_hz)
    out = resampler.process(tone(from_hz, tone_hz))
    delay = resampler.delay_samples
    expected = tone(to_hz, tone_hz)
    settled = slice(2 * delay, len(expected) - delay)
    assert delay == resampler.delay_s * to_hz
    assert np.abs(out[delay:][settled] - expected[: len(out) - delay][settled]).max() < 1e-4


@pytest.mark.parametrize(("from_hz", "to_hz"), [(48_000, 16_000), (24_000, 16_000), (24_000, 8_000), (16_000, 8_000)])
def test_what_the_lower_rate_cannot_carry_does_not_fold_back(from_hz: int, to_hz: int) -> None:
    for tone_hz in np.linspace(0.5 * to_hz + 10, 0.5 * from_hz - 10, 9):
        out = Resampler(from_hz, to_hz).process(tone(from_hz, float(tone_hz)))
        assert level_db(out[200:]) < level_db(tone(from_hz, float(tone_hz))) - 75


def test_speech_band_passes_unchanged_from_24_to_16_khz() -> None:
    for tone_hz in (100, 1000, 3400, 5000, 6700):
        out = Resampler(24_000, 16_000).process(tone(24_000, tone_hz))
        assert level_db(out[200:]) == pytest.approx(-3.01, abs=0.05)


def test_an_engine_frame_makes_exactly_five_vad_blocks_each_time() -> None:
    resampler = Resampler(24_000, 16_000)
    assert [len(resampler.process(np.zeros(1920, np.float32))) for _ in range(50)] == [1280] * 50


@given(st.sampled_from(PAIRS), st.lists(st.integers(0, 700), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_chunking_changes_nothing(pair: tuple[int, int], lengths: list[int], seed: int) -> None:
    from_hz, to_hz = pair
    pcm = np.random.default_rng(seed).uniform(-1, 1, sum(lengths)).astype(np.float32)
    whole = Resampler(from_hz, to_hz).process(pcm)
    chunked = Resampler(from_hz, to_hz)
    parts = [chunked.process(part) for part in np.split(pcm, np.cumsum(lengths)[:-1])]
    assert len(whole) == math.ceil(len(pcm) * to_hz / from_hz)
    np.testing.assert_allclose(np.concatenate(parts), whole, atol=2e-6)


def test_reset_forgets_the_stream() -> None:
    resampler = Resampler(24_000, 16_000)
    first = resampler.process(tone(24_000, 700))
    resampler.process(np.ones(101, np.float32))
    resampler.reset()
    np.testing.assert_array_equal(resampler.process(tone(24_000, 700)), first)


def test_equal_rates_pass_through_without_delay_in_a_copy() -> None:
    resampler = Resampler(24_000, 24_000)
    pcm = tone(24_000, 440)
    out = resampler.process(pcm)
    assert resampler.delay_samples == 0
    assert np.array_equal(out, pcm)
    assert not np.shares_memory(out, pcm)


def test_an_unknown_rate_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="44100"):
        Resampler(44_100, 16_000)
