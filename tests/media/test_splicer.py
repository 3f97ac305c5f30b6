from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.jitterconfig import JitterConfig
from rtc_server.media.splicer import Splicer
from rtc_server.media.timescale import SpeechLevel

ROOM = 2 * FRAME_SAMPLES


def splicer(**settings: float) -> Splicer:
    return Splicer(JitterConfig(**settings), SpeechLevel())


def tone(n_samples: int = ROOM) -> FloatSamples:
    return (0.3 * np.sin(2 * np.pi * 200 * np.arange(n_samples) / SAMPLE_RATE)).astype(np.float32)


def noise(n_samples: int = ROOM) -> FloatSamples:
    return np.random.default_rng(4).uniform(-0.3, 0.3, n_samples).astype(np.float32)


def test_frame_that_needs_no_correction_is_a_copy() -> None:
    samples = tone()
    frame, used = splicer().frame(samples, 0)
    assert used == FRAME_SAMPLES
    np.testing.assert_array_equal(frame, samples[:FRAME_SAMPLES])
    assert not np.shares_memory(frame, samples)


@pytest.mark.parametrize("correction_ms", [-60, -8, 3, 17, 60, 200])
def test_quiet_sound_is_cut_and_stretched_as_wanted_up_to_one_step(correction_ms: int) -> None:
    frame, used = splicer().frame(np.zeros(3 * FRAME_SAMPLES, np.float32), correction_ms * SAMPLES_PER_MS)
    assert frame.shape == (FRAME_SAMPLES,)
    step = 40 * SAMPLES_PER_MS
    assert used - FRAME_SAMPLES == np.clip(correction_ms * SAMPLES_PER_MS, -step, step)


def test_voiced_sound_loses_whole_periods_and_only_when_enough_is_to_be_cut() -> None:
    samples, period = tone(), SAMPLE_RATE // 200
    assert splicer().frame(samples, 14 * SAMPLES_PER_MS)[1] == FRAME_SAMPLES
    frame, used = splicer().frame(samples, 16 * SAMPLES_PER_MS)
    assert used == FRAME_SAMPLES + 2 * period
    np.testing.assert_allclose(frame, tone(FRAME_SAMPLES), atol=1e-5)
    assert splicer().frame(samples, 90 * SAMPLES_PER_MS)[1] == FRAME_SAMPLES + 4 * period


def test_sound_without_a_place_is_left_alone_but_not_for_long() -> None:
    patient, pressed = splicer(similarity_fall_per_s=0.0), splicer()
    used = [(patient.frame(noise(), 960)[1], pressed.frame(noise(), 960)[1]) for _ in range(12)]
    assert all(first == FRAME_SAMPLES for first, _ in used)
    assert used[0][1] == FRAME_SAMPLES
    assert used[-1][1] > FRAME_SAMPLES


def test_patience_begins_anew_when_the_delay_was_right_for_a_frame() -> None:
    pressed = splicer()
    for _ in range(12):
        pressed.frame(noise(), 960)
    pressed.frame(noise(), 0)
    assert pressed.frame(noise(), 960)[1] == FRAME_SAMPLES
