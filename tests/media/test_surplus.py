from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.samplestore import SampleStore
from rtc_server.media.surplus import Surplus, SurplusConfig, Watch
from rtc_server.media.timescale import Place, cut_joint

ONE_SECOND = SurplusConfig(watches=(Watch(1.0),), patience_s=0.5)


def tone(n_samples: int, tone_hz: float = 200.0) -> FloatSamples:
    return (0.3 * np.sin(2 * np.pi * tone_hz * np.arange(n_samples) / SAMPLE_RATE)).astype(np.float32)


def noise(n_samples: int) -> FloatSamples:
    return (0.1 * np.random.default_rng(2).standard_normal(n_samples)).astype(np.float32)


def queue_of(sound: FloatSamples) -> SampleStore:
    queue = SampleStore(2 * sound.size)
    queue.append(sound)
    return queue


def watched(config: SurplusConfig, spare_ms: float, seconds: float, heard: FloatSamples) -> Surplus:
    """One that has seen as much to spare in every frame, and knows the sound."""
    surplus = Surplus(config)
    for tick in range(int(seconds / FRAME_S) + 1):
        surplus.hear(heard[:FRAME_SAMPLES])
        surplus.watch(tick * FRAME_S, spare_ms * SAMPLES_PER_MS)
    return surplus


def cut_all(surplus: Surplus, now: float, queue: SampleStore) -> list[Place]:
    places = []
    for place in surplus.cuts(now, queue):
        queue.cut(queue.first + place.position, place.length, cut_joint(queue.read(queue.first, len(queue)), place))
        surplus.lower(place.length)
        places.append(place)
    return places


def test_the_surplus_is_the_lowest_of_the_window() -> None:
    surplus = Surplus(ONE_SECOND)
    for tick, spare in enumerate([900, 300, 700, 800, 500, 600]):
        surplus.watch(tick * 0.25, spare)
        if tick < 4:
            assert surplus.samples(tick * 0.25) == 0  # not watched for a whole window yet
    assert surplus.samples(1.25) == 300
    surplus.watch(1.5, 900)
    assert surplus.samples(1.5) == 500


def test_of_several_windows_the_one_counts_that_finds_the_most_beyond_what_it_keeps() -> None:
    surplus = Surplus(SurplusConfig(watches=(Watch(4.0, kept_ms=10), Watch(1.0, kept_ms=100)), patience_s=0.5))
    spare = [0, 500, 500, 500, 500, 80, 80, 80, 80]
    found = []
    for second, spare_ms in enumerate(spare):
        surplus.watch(float(second), spare_ms * SAMPLES_PER_MS)
        found.append(surplus.samples(float(second)) / SAMPLES_PER_MS)
    assert found[2:5] == [400, 400, 400]
    assert found[5] == 70  # the longest window has forgotten the beginning
    assert found[-1] == 70


def test_what_is_cut_counts_no_more_and_a_new_beginning_counts_nothing() -> None:
    surplus = watched(ONE_SECOND, 50, 2.0, tone(FRAME_SAMPLES))
    surplus.lower(20 * SAMPLES_PER_MS)
    assert surplus.samples(2.0) == 30 * SAMPLES_PER_MS
    surplus.lower(90 * SAMPLES_PER_MS)
    assert surplus.samples(2.0) == 0
    surplus.watch_anew()
    assert surplus.samples(2.0) == 0


def test_a_pause_is_cut_rather_than_the_voice() -> None:
    sound = np.concatenate((tone(2400), np.zeros(2400, np.float32), tone(2400)))
    (place,) = cut_all(watched(ONE_SECOND, 60, 2.0, sound), 2.0, queue_of(sound))
    assert place.length == 60 * SAMPLES_PER_MS
    assert place.position >= 2400
    assert place.position + place.length <= 4800


def test_a_voice_loses_whole_pitch_periods() -> None:
    sound = tone(4800)
    queue = queue_of(sound)
    places = cut_all(watched(ONE_SECOND, 30, 2.0, sound), 2.0, queue)
    assert [place.length % 120 for place in places] == [0]
    assert np.abs(np.diff(queue.read(queue.first, len(queue)))).max() < 0.02


@pytest.mark.parametrize(("spare_ms", "cuts"), [(1, 0), (30, 1), (60, 2), (200, 3)])
def test_the_more_there_is_the_more_cuts_a_frame_brings(spare_ms: int, cuts: int) -> None:
    assert len(cut_all(watched(ONE_SECOND, spare_ms, 2.0, tone(4800)), 2.0, queue_of(tone(4800)))) == cuts


def test_noise_is_cut_when_patience_is_at_an_end_and_at_once_where_there_is_much() -> None:
    surplus = watched(ONE_SECOND, 30, 2.0, noise(4800))
    assert cut_all(surplus, 2.0, queue_of(noise(4800))) == []
    surplus.watch(2.4, 30 * SAMPLES_PER_MS)
    assert cut_all(surplus, 2.4, queue_of(noise(4800))) == []
    surplus.watch(2.6, 30 * SAMPLES_PER_MS)
    assert len(cut_all(surplus, 2.6, queue_of(noise(4800)))) == 1
    assert len(cut_all(watched(ONE_SECOND, 300, 2.0, noise(4800)), 2.0, queue_of(noise(4800)))) == 3


def test_a_little_waits_for_a_pause_however_long_that_takes() -> None:
    patient = SurplusConfig(watches=(Watch(1.0),), patience_s=0.5, voiced_above_ms=15)
    surplus = watched(patient, 14, 2.0, tone(4800))
    for second in range(2, 60):
        surplus.watch(float(second), 14 * SAMPLES_PER_MS)
        assert cut_all(surplus, float(second), queue_of(tone(4800))) == []
    sound = np.concatenate((tone(2400), np.zeros(2400, np.float32)))
    assert [place.length for place in cut_all(surplus, 59.0, queue_of(sound))] == [14 * SAMPLES_PER_MS]


def test_a_queue_too_short_for_a_splice_is_left_alone() -> None:
    surplus = watched(ONE_SECOND, 30, 2.0, tone(4800))
    assert cut_all(surplus, 2.0, queue_of(tone(300))) == []
