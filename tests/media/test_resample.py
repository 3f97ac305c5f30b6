from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

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


def gain_db(from_hz: int, to_hz: int, tones_hz: Iterable[float]) -> list[float]:
    """At each frequency, from the response to one sample: that says everything about a linear filter, but for the
    phases that different input samples take, so each of them is one's turn."""
    gains = []
    period = from_hz // math.gcd(from_hz, to_hz)
    responses = []
    for at in range(period):
        impulse = np.zeros(from_hz // 50, np.float32)
        impulse[at] = 1
        responses.append(Resampler(from_hz, to_hz).process(impulse))
    for tone_hz in tones_hz:
        wave = np.exp(-2j * np.pi * tone_hz * np.arange(len(responses[0])) / to_hz)
        here = np.exp(-2j * np.pi * tone_hz * np.arange(period) / from_hz)
        gain = sum(response @ wave / turn for response, turn in zip(responses, here, strict=True)) / period
        gains.append(20 * math.log10(abs(gain) * from_hz / to_hz))
    return gains


@pytest.mark.parametrize(("from_hz", "to_hz"), PAIRS)
def test_pass_band_is_flat_within_a_hundredth_of_a_decibel(from_hz: int, to_hz: int) -> None:
    low_hz = min(from_hz, to_hz)
    assert np.abs(gain_db(from_hz, to_hz, np.linspace(0, 0.42 * low_hz, 60))).max() < 0.01


@pytest.mark.parametrize(("low_hz", "edge_hz", "most_db"), [(8_000, 3_400, 0.05), (16_000, 7_000, 0.5)])
def test_bands_of_telephony_pass_to_their_edge(low_hz: int, edge_hz: int, most_db: float) -> None:
    for pair in ((24_000, low_hz), (low_hz, 24_000)):
        assert -most_db < gain_db(*pair, [edge_hz])[0] < 0


@pytest.mark.parametrize(("from_hz", "to_hz"), PAIRS)
def test_one_sample_comes_out_symmetrical_around_the_stated_delay(from_hz: int, to_hz: int) -> None:
    impulse = np.zeros(from_hz // 50, np.float32)
    impulse[0] = 1
    resampler = Resampler(from_hz, to_hz)
    out, delay = resampler.process(impulse), resampler.delay_samples
    assert int(np.argmax(out)) == delay
    assert np.allclose(out[: delay + 1], out[delay : 2 * delay + 1][::-1], atol=1e-7)
    assert not out[2 * delay + 1 :].any()


@pytest.mark.parametrize(("from_hz", "to_hz"), [(24_000, 16_000), (24_000, 8_000), (16_000, 8_000), (48_000, 16_000)])
def test_sweep_through_the_whole_band_comes_out_as_if_made_at_that_rate(from_hz: int, to_hz: int) -> None:
    resampler = Resampler(from_hz, to_hz)
    out, delay = resampler.process(sweep(from_hz, 0.42 * to_hz)), resampler.delay_samples
    expected = sweep(to_hz, 0.42 * to_hz)
    assert np.abs(out[2 * delay :] - expected[delay : len(out) - delay]).max() < 3e-3


def sweep(rate_hz: int, end_hz: float) -> np.ndarray:
    """From 0 to `end_hz` in a second."""
    time = np.arange(rate_hz) / rate_hz
    return np.sin(np.pi * end_hz * time**2).astype(np.float32)


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


@pytest.mark.parametrize("pair", [(8_000, 24_000), (24_000, 8_000), (16_000, 24_000), (24_000, 16_000)])
def test_packets_of_one_length_and_odd_chunks_may_alternate(pair: tuple[int, int]) -> None:
    packet = pair[0] // 50
    lengths = [packet, packet, 7, packet, 2 * packet, packet, 1, 2 * packet - 8, packet, packet]
    pcm = np.random.default_rng(3).uniform(-1, 1, sum(lengths)).astype(np.float32)
    chunked = Resampler(*pair)
    parts = [chunked.process(part) for part in np.split(pcm, np.cumsum(lengths)[:-1])]
    np.testing.assert_allclose(np.concatenate(parts), Resampler(*pair).process(pcm), atol=2e-6)


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
