from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, FloatSamples
from rtc_server.media.timescale import (
    FADE_SAMPLES,
    Place,
    SpeechLevel,
    join,
    lengthened,
    pitch_place,
    quiet_place,
    shortened,
)
from tests.media.speech import speech


def tone(count: int = FRAME_SAMPLES, hz: float = 200.0) -> FloatSamples:
    return np.sin(2 * np.pi * hz * np.arange(count) / SAMPLE_RATE).astype(np.float32)


def with_gap(start: int, stop: int) -> FloatSamples:
    samples = tone()
    samples[start:stop] = 0
    return samples


def test_a_splice_lies_inside_the_quiet_stretch() -> None:
    place = quiet_place(with_gap(600, 1200), 2000, 1e-6)
    assert place == Place(600, 480)
    place = quiet_place(with_gap(600, 1200), 100, 1e-6)
    assert place is not None
    assert place.length == 100
    assert place.position > 600
    assert place.position + place.length + FADE_SAMPLES < 1200


def test_no_quiet_stretch_no_splice() -> None:
    assert quiet_place(tone(), 100, 1e-6) is None
    assert quiet_place(with_gap(600, 780), 500, 1e-6) == Place(600, 60)
    assert quiet_place(with_gap(600, 720), 500, 1e-6) is None
    assert quiet_place(np.zeros(10, np.float32), 5, 1e-6) is None


def test_latest_position_is_respected() -> None:
    samples = with_gap(600, 1800)
    place = quiet_place(samples, 200, 1e-6, latest=700)
    assert place == Place(700, 200)
    assert quiet_place(samples, 200, 1e-6, latest=599) is None
    place = pitch_place(tone(), 300, 0.9, latest=0)
    assert place is not None
    assert place.position == 0


@pytest.mark.parametrize("hz", [100, 150, 200, 333])
def test_whole_periods_are_found(hz: float) -> None:
    place = pitch_place(tone(hz=hz), 360, 0.9)
    assert place is not None
    periods = place.length * hz / SAMPLE_RATE
    assert periods == pytest.approx(round(periods), abs=0.05)


def test_noise_has_no_period_but_a_best_place() -> None:
    noise = np.random.default_rng(0).standard_normal(FRAME_SAMPLES).astype(np.float32)
    assert pitch_place(noise, 360, 0.8) is None
    assert pitch_place(noise, 360, -1.0) is not None
    assert pitch_place(noise, 59, -1.0) is None


def test_cut_and_repeated_periods_leave_a_tone_a_tone() -> None:
    samples = tone()
    place = Place(400, 240)  # two periods
    np.testing.assert_allclose(shortened(samples, place), tone(FRAME_SAMPLES - 240), atol=1e-5)
    np.testing.assert_allclose(lengthened(samples, place), tone(FRAME_SAMPLES + 240), atol=1e-5)


def test_join_begins_with_the_old_sound_and_ends_with_the_new() -> None:
    samples = np.ones(200, np.float32)
    join(np.zeros(60, np.float32), samples)
    assert samples[0] == 0
    assert (np.diff(samples[:60]) > 0).all()
    assert (samples[60:] == 1).all()
    join(np.zeros(0, np.float32), samples)
    assert (samples[60:] == 1).all()


def test_pauses_of_speech_are_quiet_and_its_words_are_not() -> None:
    level, voice = SpeechLevel(), speech()
    quiet = []
    for at in range(0, voice.size - FRAME_SAMPLES, FRAME_SAMPLES):
        frame = voice[at : at + FRAME_SAMPLES]
        level.update(frame)
        quiet.append(float(np.mean(frame**2)) < level.quiet)
    assert all(quiet[2:9])
    assert sum(quiet[11:45]) < 10
