from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, MAX_VOICE_SAMPLE_FRAMES
from rtc_server.engine.voicesample import voice_sample
from rtc_server.errors import EngineError, UnknownVoice


class Choir(EchoStepper):
    """Two voices, one of which can be listened to."""

    def __init__(self, sample: NDArray[np.float32]) -> None:
        super().__init__(1, EngineOptions(slots=1))
        self.spec = dataclasses.replace(self.spec, voices=("alto", "bass"), voice_samples=("bass",))
        self.sample = sample

    def voice_sample(self, voice: str) -> NDArray[np.float32]:
        assert voice == "bass"
        return self.sample


def test_a_sample_is_whole_frames() -> None:
    sample = voice_sample(Choir(np.full(2000, 0.5, np.float32)), "bass")
    assert sample is not None and sample.shape == (2, FRAME_SAMPLES) and sample.dtype == np.int16
    assert np.flatnonzero(sample).max() == 1999 and sample[0, 0] == 16384


def test_a_sample_is_cut_off_after_six_seconds() -> None:
    sample = voice_sample(Choir(np.ones(200_000, np.float32)), "bass")
    assert sample is not None and sample.shape == (MAX_VOICE_SAMPLE_FRAMES, FRAME_SAMPLES)
    assert sample.size == 6 * 24_000


def test_a_voice_without_a_sample_has_none() -> None:
    assert voice_sample(Choir(np.ones(10, np.float32)), "alto") is None
    assert voice_sample(EchoStepper(1, EngineOptions(slots=1)), "default") is None


@pytest.mark.parametrize("name", ["tenor", "", "../bass", "bass.wav"])
def test_only_voices_of_the_engine_are_known(name: str) -> None:
    with pytest.raises(UnknownVoice):
        voice_sample(Choir(np.ones(10, np.float32)), name)


@pytest.mark.parametrize("sample", [np.zeros(0), np.zeros((2, 10)), np.array([0.0, np.nan])])
def test_what_is_no_sound_is_an_error(sample: NDArray[np.float32]) -> None:
    with pytest.raises(EngineError, match="is no sound"):
        voice_sample(Choir(sample), "bass")


def test_an_engine_that_only_says_so_is_an_error() -> None:
    stepper = EchoStepper(1, EngineOptions(slots=1))
    stepper.spec = dataclasses.replace(stepper.spec, voice_samples=("default",))
    with pytest.raises(EngineError, match="has no voice_sample"):
        voice_sample(stepper, "default")
