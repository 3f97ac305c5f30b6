from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, FloatSamples
from rtc_server.media.vad import SpeechStarted, SpeechStopped, VoiceActivity
from tests.media.speech import speech, speech_spans


def listen(pcm: FloatSamples) -> list[tuple[int, SpeechStarted | SpeechStopped]]:
    """(frame in which it was told, event)."""
    activity = VoiceActivity()
    frames = [pcm[at : at + FRAME_SAMPLES] for at in range(0, pcm.size - FRAME_SAMPLES + 1, FRAME_SAMPLES)]
    events = [(k, activity.update(frame)) for k, frame in enumerate(frames)]
    return [(k, event) for k, event in events if event is not None]


def pink_noise(seconds: float, level: float, seed: int = 0) -> FloatSamples:
    count = int(seconds * SAMPLE_RATE)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(count))
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(spectrum.size), 1)), count)
    return (noise / noise.std() * level).astype(np.float32)


def test_one_turn_starts_and_stops_where_it_does() -> None:
    ((told_start, start), (told_stop, stop)) = listen(speech("01_single_turn"))
    ((spoken_from, spoken_to),) = speech_spans("01_single_turn")
    assert isinstance(start, SpeechStarted)
    assert isinstance(stop, SpeechStopped)
    assert start.frame * FRAME_S == pytest.approx(spoken_from, abs=0.12)
    assert stop.frame * FRAME_S == pytest.approx(spoken_to, abs=0.16)
    assert (told_start - start.frame + 1) * FRAME_S <= 0.24
    assert (told_stop - stop.frame + 1) * FRAME_S == pytest.approx(0.48)


@pytest.mark.parametrize("level_db", [-60, -45, -30])
def test_speech_is_found_in_noise_ten_decibels_below(level_db: float) -> None:
    voice = speech("01_single_turn")
    noise = pink_noise(voice.size / SAMPLE_RATE, 10 ** (level_db / 20))
    voice = voice / voice.std() * 10 ** ((level_db + 10) / 20)
    events = [event for _, event in listen((voice + noise).astype(np.float32))]
    starts = [event.frame * FRAME_S for event in events if isinstance(event, SpeechStarted)]
    assert starts
    assert starts[0] == pytest.approx(0.8, abs=0.4)
    assert len(starts) <= 2


@pytest.mark.parametrize("name", ["05_noise_only", "07_silence"])
def test_noise_a_click_and_silence_start_nothing(name: str) -> None:
    assert listen(speech(name)) == []


def test_noise_that_sets_in_loudly_starts_nothing() -> None:
    for seed in range(5):
        quiet, loud = pink_noise(2.0, 0.001, seed), pink_noise(4.0, 0.1, seed + 100)
        assert listen(np.concatenate((quiet, loud))) == []


def test_knocks_start_nothing() -> None:
    rng = np.random.default_rng(1)
    pcm = rng.standard_normal(SAMPLE_RATE * 5).astype(np.float32) * 0.0005
    for at in range(SAMPLE_RATE, pcm.size - 2000, 6000):
        pcm[at : at + 1200] += (rng.standard_normal(1200) * np.exp(-np.arange(1200) / 200)).astype(np.float32) * 0.8
    assert listen(pcm) == []


def test_speech_after_speech_is_found_again() -> None:
    events = listen(np.concatenate((speech(), speech())))
    assert [type(event) for _, event in events] == [SpeechStarted, SpeechStopped] * 2
