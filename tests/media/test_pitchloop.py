from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.pitchloop import LONGEST_PERIOD, PAST_SAMPLES, SHORTEST_PERIOD, PitchLoop, pitch_period


def voice(period: int, n_samples: int = PAST_SAMPLES) -> np.ndarray:
    """Decaying pulses, one in each period."""
    at = np.arange(n_samples) % period
    return (np.exp(-at / 12) * np.sin(at * 0.7)).astype(np.float32)


@pytest.mark.parametrize("period", [SHORTEST_PERIOD, 53, 80, 101, LONGEST_PERIOD])
def test_pitch_of_a_voice_is_found(period: int) -> None:
    assert pitch_period(voice(period)) % period == 0


def test_high_voice_is_repeated_several_periods_at_a_time() -> None:
    assert pitch_period(voice(30)) in (60, 90, 120)


@pytest.mark.parametrize("past", [np.zeros(PAST_SAMPLES), np.ones(PAST_SAMPLES), np.full(PAST_SAMPLES, 1e-20)])
def test_sound_without_a_pitch_has_some_period(past: np.ndarray) -> None:
    assert SHORTEST_PERIOD <= pitch_period(past.astype(np.float32)) <= LONGEST_PERIOD


@pytest.mark.parametrize("period", [53, 80, 101])
def test_voice_goes_on_as_it_would_have(period: int) -> None:
    whole = voice(period, PAST_SAMPLES + 80)
    assert np.allclose(PitchLoop(whole[:PAST_SAMPLES]).next(80), whole[PAST_SAMPLES:], atol=1e-4)


def test_seams_are_smooth_though_the_sound_changes() -> None:
    time = np.arange(PAST_SAMPLES)
    past = np.sin(time**1.1 * 0.08).astype(np.float32) * (0.3 + time / PAST_SAMPLES).astype(np.float32)
    steepest = np.abs(np.diff(past)).max()
    assert np.abs(np.diff(np.concatenate((past[-1:], PitchLoop(past).next(400))))).max() < 1.5 * steepest


def test_pieces_are_the_same_as_the_whole() -> None:
    past = voice(77)
    whole, loop = PitchLoop(past).next(600), PitchLoop(past)
    pieces = [loop.next(size) for size in (20, 1, 79, 200, 300)]
    assert np.allclose(np.concatenate(pieces), whole)


def test_what_was_given_can_be_had_again() -> None:
    loop = PitchLoop(voice(77))
    whole = loop.next(600)
    for begin, end in ((0, 600), (0, 7), (13, 90), (400, 500)):
        assert np.array_equal(loop.sound(begin, end), whole[begin:end])
    assert loop.position == 600


def test_at_16_khz_every_time_is_the_same() -> None:
    past = np.repeat(voice(77), 2)  # exactly twice the rate, and every other sample is that of 8 kHz
    assert pitch_period(past, scale=2) == 2 * pitch_period(voice(77))
    sound = PitchLoop(past, scale=2).next(1600)
    assert np.abs(sound[:160]).max() == pytest.approx(np.abs(past).max(), rel=0.01)
    assert np.abs(sound[900:960]).max() < 0.1 * np.abs(past).max()
    assert not sound[960:].any()


def test_loud_for_10_ms_and_silent_from_60() -> None:
    sound = PitchLoop(voice(80)).next(800)
    peaks = np.abs(sound.reshape(-1, 80)).max(axis=1)
    assert peaks[0] == pytest.approx(np.abs(voice(80)).max(), rel=0.01)
    assert all(np.diff(peaks[:7]) < 0)
    assert not sound[480:].any()
