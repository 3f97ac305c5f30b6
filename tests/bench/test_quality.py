import numpy as np
import pytest

from rtc_server.bench.quality import log_spectral_distance_db, word_errors, words_of
from rtc_server.bench.speech import load_speech


def test_the_same_sound_has_no_distance_and_half_the_sound_has_6_db() -> None:
    speech = load_speech().pcm
    assert log_spectral_distance_db(speech, speech) == 0
    noise = np.random.default_rng(1).standard_normal(24_000)
    assert log_spectral_distance_db(noise, noise / 2) == pytest.approx(6.02, abs=0.05)


def test_pauses_do_not_count() -> None:
    speech = load_speech().pcm[: 3 * 24_000].copy()
    pause = slice(0, 14_400)  # the first words come after 0.8 s
    heard = speech.copy()
    heard[pause] = 0.0005 * np.random.default_rng(1).standard_normal(14_400)
    assert log_spectral_distance_db(speech, heard) == 0


def test_holes_in_speech_cost_more_than_speech_that_is_a_little_off() -> None:
    speech = load_speech().pcm
    holes = speech.reshape(-1, 480).copy()
    holes[np.random.default_rng(1).random(len(holes)) < 0.1] = 0
    assert 1 < log_spectral_distance_db(speech, holes.reshape(-1)) < 3
    assert log_spectral_distance_db(speech, speech * 0.95) < 0.5


@pytest.mark.parametrize("samples", [0, 100, 512, 2000])
def test_short_and_silent_sounds_have_no_distance(samples: int) -> None:
    assert log_spectral_distance_db(np.zeros(samples), np.ones(samples)) == 0


def test_words_are_compared_as_they_sound() -> None:
    assert words_of("Wait. STOP! Mr. O'Neill, at 7?") == ["wait", "stop", "mister", "o'neill", "at", "seven"]
    assert words_of("") == []


@pytest.mark.parametrize(
    ("said", "heard", "errors"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "a x c", 1),
        ("a b c", "a c", 1),
        ("a b c", "a b b c d", 2),
        ("a b c", "", 3),
        ("", "a b", 2),
        ("please book a table", "peas look at a table", 3),
    ],
)
def test_word_errors_are_the_least_number_of_changes(said: str, heard: str, errors: int) -> None:
    assert word_errors(said.split(), heard.split()) == errors
