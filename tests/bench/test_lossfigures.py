"""Calls made up so that every figure is known beforehand."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server.bench.listener import Recording
from rtc_server.bench.losscalls import HeardCall
from rtc_server.bench.lossfigures import engine_time_missing_ms, loss_figures, recovery_s
from rtc_server.bench.speech import Speech, load_speech
from rtc_server.engine.stepper import FRAME_S, FRAME_SAMPLES
from rtc_server.media.pcm import to_float, to_int16

RATE = 24_000
CAPTURED_S = 1000.0
FIRST_STEP_S = 1000.2
NETWORK_MS = 20.0
SPEECH_AT = 2 * RATE


@pytest.fixture(scope="module")
def speech() -> Speech:
    """The first recording: 9 words in 6 s."""
    whole = load_speech()
    return Speech(whole.pcm[: 6 * RATE], whole.utterances[:1])


def clean_stream(speech: Speech) -> NDArray[np.float32]:
    """Two seconds of the room, the speech, 16 s of speech without pauses."""
    stream = np.concatenate([np.zeros(SPEECH_AT), speech.pcm, speech.without_pauses(16.0)])
    return (stream + 0.0003 * np.random.default_rng(1).standard_normal(stream.size)).astype(np.float32)


def heard_call(speech: Speech, added_ms: NDArray[np.float64] | float) -> HeardCall:
    """`added_ms` per frame, or for all; steps scatter by 2 ms, sound does not."""
    clean = clean_stream(speech)
    frames = round(24 / FRAME_S)
    added_ms = np.broadcast_to(np.asarray(added_ms, np.float64), (frames,))
    line_s = FIRST_STEP_S + np.arange(frames) * FRAME_S
    pcm = np.zeros((frames, FRAME_SAMPLES), np.int16)
    for frame, (step_s, added) in enumerate(zip(line_s, added_ms, strict=True)):
        end = round((step_s - CAPTURED_S - (NETWORK_MS + added) / 1000) * RATE)
        at = np.arange(end - FRAME_SAMPLES, end)
        there = (at >= 0) & (at < clean.size)
        pcm[frame] = np.where(there, to_int16(clean[np.clip(at, 0, clean.size - 1)]), 0)
    scatter_s = np.random.default_rng(2).uniform(-0.002, 0.002, frames)
    return HeardCall(
        clean=clean,
        captured_s=CAPTURED_S,
        recording=Recording(line_s + scatter_s, pcm),
        speech_at=SPEECH_AT,
        standstill_end_s=CAPTURED_S + 15.0,
        live_s=(FIRST_STEP_S - 0.05, FIRST_STEP_S + (frames - 1) * FRAME_S + 0.03),
        lost=0.1,
    )


def test_a_call_that_heard_everything_at_once_has_nothing_to_show(speech: Speech) -> None:
    texts = iter([speech.utterances[0].text.upper()] * 2)
    figures = loss_figures([heard_call(speech, 15.0)], speech, NETWORK_MS, lambda sound: next(texts))
    assert figures["engine_time_missing_ms"] == 0
    assert figures["lsd_db"] == pytest.approx(0, abs=0.05)
    assert figures["added_delay_p50_ms"] == pytest.approx(15, abs=1.5)
    assert figures["added_delay_p95_ms"] == pytest.approx(15, abs=1.5)
    assert figures["recovery_s"] == 0
    assert (figures["word_error"], figures["word_error_points"], figures["words"]) == (0, 0, 8)
    assert (figures["calls"], figures["lost"]) == (1, 0.1)


def test_a_delay_that_moves_is_followed(speech: Speech) -> None:
    frames = np.arange(300)
    figures = loss_figures(
        [heard_call(speech, np.where(frames % 50 < 25, 20.0, 80.0))], speech, NETWORK_MS, find_words=None
    )
    assert figures["added_delay_p50_ms"] is not None and 19 <= float(figures["added_delay_p50_ms"]) <= 81
    assert figures["added_delay_p95_ms"] == pytest.approx(80, abs=2)
    assert figures["word_error"] is None


def test_words_are_looked_for_where_they_were_said_and_counted_over_all_calls(speech: Speech) -> None:
    begin, end = speech.surroundings(speech.utterances[0])
    sounds: list[NDArray[np.float32]] = []

    def find_words(sound: NDArray[np.float32]) -> str:
        sounds.append(sound)
        return "Hello there. What is the weather like?" if len(sounds) % 2 else speech.utterances[0].text

    figures = loss_figures([heard_call(speech, 15.0)] * 2, speech, NETWORK_MS, find_words)
    assert figures["words"] == 16
    assert (figures["word_error"], figures["clean_word_error"], figures["word_error_points"]) == (0.125, 0, 12.5)
    for heard, clean in zip(sounds[::2], sounds[1::2], strict=True):
        assert clean.size == end - begin and abs(heard.size - clean.size) <= 10
        assert np.mean((heard[:-10] - clean[: heard.size - 10]) ** 2) < 0.01 * np.mean(clean**2)


def test_recovery_is_measured_from_the_standstills_end(speech: Speech) -> None:
    at_s = FIRST_STEP_S - CAPTURED_S + np.arange(300) * FRAME_S
    added_ms = np.where((at_s > 14.0) & (at_s < 16.4), 150.0, 20.0)
    assert recovery_s(heard_call(speech, added_ms), NETWORK_MS) == pytest.approx(1.4, abs=0.17)


def test_a_delay_that_does_not_come_back_is_told(speech: Speech) -> None:
    at_s = FIRST_STEP_S - CAPTURED_S + np.arange(300) * FRAME_S
    recovery = recovery_s(heard_call(speech, np.where(at_s > 14.0, 150.0, 20.0)), NETWORK_MS)
    assert recovery is not None and recovery > 6


def test_time_that_the_engine_was_not_given_is_missing_in_whole_frames(speech: Speech) -> None:
    call = heard_call(speech, 15.0)
    at_s, pcm = call.recording.at_s, call.recording.pcm

    def missing_ms(kept: NDArray[np.int64]) -> float:
        return engine_time_missing_ms(replace(call, recording=Recording(at_s[kept], pcm[kept])))

    everything = np.arange(at_s.size)
    assert missing_ms(everything) == 0
    assert missing_ms(np.delete(everything, [50, 51, 200])) == 240
    assert missing_ms(everything[3:]) == 240
    assert missing_ms(everything[:-2]) == 160
    assert missing_ms(everything[:0]) == at_s.size * 80
    assert missing_ms(np.sort(np.append(everything, 7))) == -80


def test_int16_and_back_is_what_the_recording_holds(speech: Speech) -> None:
    recording = heard_call(speech, 15.0).recording
    assert np.array_equal(recording.sound(), to_float(recording.pcm.reshape(-1)))
