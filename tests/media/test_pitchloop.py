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


def test_loud_for_10_ms_and_silent_from_60() -> None:
    sound = PitchLoop(voice(80)).next(800)
    peaks = np.abs(sound.reshape(-1, 80)).max(axis=1)
    assert peaks[0] == pytest.approx(np.abs(voice(80)).max(), rel=0.01)
    assert all(np.diff(peaks[:7]) < 0)
    assert not sound[480:].any()
