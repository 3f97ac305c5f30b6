import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server.bench.alignment import Alignment, align
from rtc_server.bench.speech import load_speech

RATE = 24_000
MOST_LAG = RATE // 2
Sound = NDArray[np.float32]


@pytest.fixture(scope="module")
def clean() -> Sound:
    """Speech without its pauses, in a quiet room."""
    speech = load_speech().without_pauses(8.0)
    return (speech + 0.0003 * np.random.default_rng(1).standard_normal(speech.size)).astype(np.float32)


def heard_with(clean: Sound, lags: NDArray[np.int64]) -> Sound:
    at = np.arange(lags.size) - lags
    return np.where(at >= 0, clean[np.clip(at, 0, clean.size - 1)], 0).astype(np.float32)


def steps(samples: int, *changes: tuple[float, int]) -> NDArray[np.int64]:
    """Each (from this second on, this lag)."""
    lags = np.zeros(samples, np.int64)
    for at_s, lag in changes:
        lags[round(at_s * RATE) :] = lag
    return lags


def known_share(alignment: Alignment, right: NDArray[np.bool_]) -> float:
    samples = np.flatnonzero([alignment.known(sample) for sample in range(0, right.size, 480)]) * 480
    return float(right[samples].mean())


def test_one_delay_is_found_to_the_sample(clean: Sound) -> None:
    lags = steps(clean.size, (0, 1237))
    alignment = align(clean, heard_with(clean, lags), 0, MOST_LAG)
    assert known_share(alignment, alignment.lags == lags) == 1
    assert np.mean([alignment.known(sample) for sample in range(0, clean.size, 480)]) > 0.8


def test_steps_are_found_where_they_are(clean: Sound) -> None:
    lags = steps(clean.size, (0, 2000), (2.0, 2480), (3.5, 2390), (5.0, 6000), (6.5, 2000))
    alignment = align(clean, heard_with(clean, lags), 0, MOST_LAG)
    assert known_share(alignment, alignment.lags == lags) > 0.98
    reference = alignment.reference(clean)
    assert np.mean((reference - heard_with(clean, lags)) ** 2) < 0.002 * np.mean(clean**2)


def test_holes_and_noise_do_not_move_the_delay(clean: Sound) -> None:
    lags = steps(clean.size, (0, 2000), (4.0, 2600))
    random = np.random.default_rng(2)
    heard = heard_with(clean, lags)
    packets = heard[: heard.size // 480 * 480].reshape(-1, 480)
    packets[random.random(len(packets)) < 0.1] = 0
    heard += (0.01 * random.standard_normal(heard.size)).astype(np.float32)
    alignment = align(clean, heard, 0, MOST_LAG)
    assert known_share(alignment, abs(alignment.lags - lags) <= 1) > 0.97


def test_pauses_are_not_known_and_keep_a_delay_of_their_neighbours(clean: Sound) -> None:
    quiet = clean.copy()
    quiet[3 * RATE : 4 * RATE] = 0
    lags = steps(clean.size, (0, 1500))
    alignment = align(quiet, heard_with(quiet, lags), 0, MOST_LAG)
    assert not alignment.known(round(3.5 * RATE) + 1500)
    assert set(alignment.lags[4 * RATE + 2000 :].tolist()) == {1500}


@pytest.mark.parametrize("samples", [0, 1, 479, 480, 1000])
def test_short_sounds_are_no_trouble(clean: Sound, samples: int) -> None:
    alignment = align(clean[:samples], clean[:samples], 0, 2400)
    assert alignment.lags.size == alignment.reference(clean[:samples]).size == samples
    assert not alignment.known(samples) or samples >= 480
