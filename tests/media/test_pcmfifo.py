from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.pcmfifo import PcmFifo, PcmFifoCounters
from tests.media.speech import talk

CHUNK = 20 * SAMPLES_PER_MS
STEEPEST = 0.04
"""Most that `tone` moves from one sample to the next, and a little."""

Arrivals = list[tuple[float, int]]
"""(when a chunk comes, how many samples it has)."""


def noise(n_samples: int, seed: int = 0) -> FloatSamples:
    return np.random.default_rng(seed).uniform(-1, 1, n_samples).astype(np.float32)


def tone(n_samples: int) -> FloatSamples:
    return (0.3 * np.sin(2 * np.pi * 440 * np.arange(n_samples) / SAMPLE_RATE)).astype(np.float32)


def steepest(pcm: FloatSamples) -> float:
    return float(np.abs(np.diff(pcm)).max())


def each(chunk: int, start_s: float, until_s: float, ppm: float = 0.0) -> Arrivals:
    """Even chunks of a client whose clock is fast by `ppm`: each comes when its last sample was recorded."""
    step_s = chunk / SAMPLE_RATE / (1 + ppm * 1e-6)
    return [(start_s + step_s * (k + 1), chunk) for k in range(round((until_s - start_s) / step_s))]


@dataclass
class Call:
    """What a queue gave out, one frame a tick."""

    pcm: FloatSamples
    counters: PcmFifoCounters
    at_s: NDArray[np.float64]
    left_ms: NDArray[np.float64]
    """What each tick left waiting."""
    missing_ms: NDArray[np.float64]
    """Silence given out so far."""

    def left(self, since_s: float, until_s: float) -> NDArray[np.float64]:
        return self.left_ms[(self.at_s >= since_s) & (self.at_s < until_s)]

    def missing(self, since_s: float, until_s: float) -> float:
        span = self.missing_ms[(self.at_s >= since_s) & (self.at_s < until_s)]
        return float(span[-1] - span[0])


def hold(arrivals: Arrivals, seconds: float, sound: FloatSamples, phase_s: float = 0.033) -> Call:
    """Put `sound`, again and again, as it arrives, and take a frame each 80 ms, the first at `phase_s`."""
    fifo, frames, rows = PcmFifo(), [], []
    repeat = sound.size
    sound = np.resize(sound, repeat + max(size for _, size in arrivals))
    coming, position = iter([*arrivals, (np.inf, 0)]), 0
    next_s, size = next(coming)
    for tick in range(int(seconds / FRAME_S)):
        now = phase_s + tick * FRAME_S
        while next_s <= now:
            fifo.put(next_s, sound[position : position + size])
            position = (position + size) % repeat
            next_s, size = next(coming)
        frames.append(fifo.take(now))
        rows.append((now, fifo.queued_samples, fifo.counters.missing_samples))
    at_s, left, missing = np.array(rows).T
    return Call(np.concatenate(frames), fifo.counters, at_s, left / SAMPLES_PER_MS, missing / SAMPLES_PER_MS)


# Frames


def test_chunks_of_any_size_become_frames() -> None:
    fifo, row = PcmFifo(), noise(3 * FRAME_SAMPLES)
    for chunk in np.split(row, [1, 700, 701, 4000]):
        fifo.put(0.0, chunk)
    np.testing.assert_array_equal(np.concatenate([fifo.take(0.0) for _ in range(3)]), row)
    assert fifo.counters.missing_samples == 0


def test_what_is_missing_is_silence_and_counted() -> None:
    fifo = PcmFifo()
    fifo.put(0.0, noise(FRAME_SAMPLES + 1000))
    fifo.take(0.0)
    frame = fifo.take(0.0)
    np.testing.assert_array_equal(frame[:1000], noise(FRAME_SAMPLES + 1000)[-1000:])
    assert not frame[1120:].any()
    assert fifo.counters.missing_samples == FRAME_SAMPLES - 1000


@pytest.mark.parametrize("left", [0, 30, 1000, FRAME_SAMPLES - 30])
def test_a_hole_neither_begins_nor_ends_with_a_click(left: int) -> None:
    fifo, sound = PcmFifo(), tone(4 * FRAME_SAMPLES)
    fifo.put(0.0, sound[: FRAME_SAMPLES + left])
    frames = [fifo.take(0.0) for _ in range(3)]
    fifo.put(0.0, sound[FRAME_SAMPLES + left :])
    pcm = np.concatenate([*frames, fifo.take(0.0)])
    assert not pcm[FRAME_SAMPLES + left + 240 : 3 * FRAME_SAMPLES].any()
    assert steepest(pcm) < STEEPEST


def test_after_a_hole_less_than_a_frame_waits_as_long_as_it_grows() -> None:
    """The sound that comes back in small chunks does not begin with another hole, and the last of it is not kept."""
    fifo = PcmFifo()
    for waiting in (900, 1800):
        fifo.put(0.0, noise(900))
        assert not fifo.take(0.0).any()
        assert fifo.queued_samples == waiting
    fifo.put(0.0, noise(900))
    assert fifo.take(0.0)[1:].all()
    fifo.take(0.0)
    fifo.put(0.0, noise(900))
    assert not fifo.take(0.0).any()
    assert fifo.take(0.0)[:900].any()
    assert fifo.queued_samples == 0


def test_skip_passes_over_what_waits_and_no_more() -> None:
    fifo = PcmFifo()
    fifo.put(0.0, tone(4 * FRAME_SAMPLES))
    before = fifo.take(0.0)
    fifo.skip(2)
    after = fifo.take(0.0)
    np.testing.assert_array_equal(after[120:], tone(4 * FRAME_SAMPLES)[3 * FRAME_SAMPLES + 120 :])
    assert steepest(np.concatenate((before, after))) < STEEPEST
    fifo.put(0.0, tone(100))
    fifo.skip(5)
    assert fifo.queued_samples == 0
    assert fifo.counters.skipped_samples == 2 * FRAME_SAMPLES + 100


# The bound


def test_more_than_the_bound_and_a_frame_pushes_out_the_oldest() -> None:
    fifo = PcmFifo(max_ms=100)
    for number in range(10):
        fifo.put(0.0, np.full(480, number, np.float32))
    assert fifo.queued_samples == 2400 + FRAME_SAMPLES
    assert fifo.counters.dropped_samples == 4800 - 2400 - FRAME_SAMPLES
    assert fifo.take(0.0)[480] == 2


def test_a_chunk_longer_than_the_bound_leaves_its_newest() -> None:
    fifo = PcmFifo(max_ms=100)
    fifo.put(0.0, noise(1000))
    fifo.put(0.0, np.arange(5000, dtype=np.float32) / 5000)
    assert fifo.queued_samples == 2400
    assert fifo.counters.dropped_samples == 3600
    assert fifo.take(0.0)[120] == np.float32(2720) / 5000


def test_a_drop_is_no_click() -> None:
    fifo, sound = PcmFifo(), tone(3 * SAMPLE_RATE)
    fifo.put(0.0, sound[:FRAME_SAMPLES])
    before = fifo.take(0.0)
    for chunk in np.array_split(sound[FRAME_SAMPLES:], 57):
        fifo.put(0.0, chunk)
    assert fifo.counters.dropped_samples > 0
    assert steepest(np.concatenate((before, fifo.take(0.0)[:500]))) < STEEPEST


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-3, -1), st.integers(0, 40_000)), max_size=60))
def test_every_sample_is_accounted_for(steps: list[int | None]) -> None:
    """None takes a frame, a number puts a chunk of that size, one below 0 skips so many frames."""
    fifo, put = PcmFifo(), 0
    for size in steps:
        if size is None:
            assert fifo.take(0.0).shape == (FRAME_SAMPLES,)
        elif size < 0:
            fifo.skip(-size)
        else:
            fifo.put(0.0, np.ones(size, np.float32))
            put += size
        assert fifo.queued_samples <= SAMPLE_RATE + FRAME_SAMPLES
        assert fifo.queued_samples + fifo.room_samples == SAMPLE_RATE + FRAME_SAMPLES
        counters = fifo.counters
        given_out = counters.frames * FRAME_SAMPLES - counters.missing_samples
        gone = given_out + counters.dropped_samples + counters.skipped_samples + counters.trimmed_samples
        assert gone + fifo.queued_samples == put


# Where everything is kept


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 30_000), max_size=20), st.integers(0, 2**32 - 1))
def test_a_sender_that_waits_for_room_has_every_sample_heard(sizes: list[int], seed: int) -> None:
    fifo, row, frames = PcmFifo(keeps_all=True), noise(sum(sizes), seed), []
    for chunk in np.split(row, np.cumsum(sizes)[:-1]) if sizes else []:
        rest = chunk
        while rest.size:
            now_in = min(rest.size, fifo.room_samples)
            fifo.put(0.0, rest[:now_in])
            rest = rest[now_in:]
            while fifo.frame_ready and (rest.size or seed % 2):
                frames.append(fifo.take(0.0))
    fifo.end()
    while not fifo.ended:
        assert fifo.frame_ready
        frames.append(fifo.take(0.0))
    assert not fifo.frame_ready
    heard = np.concatenate(frames) if frames else np.zeros(0, np.float32)
    assert heard.size == -(-row.size // FRAME_SAMPLES) * FRAME_SAMPLES
    np.testing.assert_array_equal(heard[: row.size], row)
    assert not heard[row.size :].any()
    assert fifo.counters.dropped_samples == fifo.counters.trimmed_samples == 0


def test_a_standing_queue_of_a_recording_is_never_trimmed() -> None:
    fifo = PcmFifo(keeps_all=True)
    fifo.put(0.0, np.zeros(SAMPLE_RATE, np.float32))
    for _ in range(300):
        fifo.put(0.0, np.zeros(FRAME_SAMPLES, np.float32))
        fifo.take(0.0)
    assert fifo.queued_samples == SAMPLE_RATE


def test_more_than_there_is_room_for_is_a_mistake_of_the_caller_where_all_is_kept() -> None:
    fifo = PcmFifo(max_ms=100, keeps_all=True)
    fifo.put(0.0, noise(fifo.room_samples))
    with pytest.raises(ValueError, match="cannot queue 1 samples: there is room for 0"):
        fifo.put(0.0, noise(1))
    fifo.skip(3)
    assert fifo.queued_samples == 2400 + FRAME_SAMPLES


@pytest.mark.parametrize("keeps_all", [False, True])
def test_the_end_fills_up_the_last_frame_and_leaves_no_room(keeps_all: bool) -> None:
    fifo = PcmFifo(keeps_all=keeps_all)
    fifo.put(0.0, noise(FRAME_SAMPLES + 100))
    assert fifo.frame_ready
    fifo.take(0.0)
    assert not fifo.frame_ready
    fifo.end()
    fifo.end()
    assert fifo.frame_ready
    assert not fifo.ended
    assert fifo.room_samples == 0
    frame = fifo.take(0.0)
    np.testing.assert_array_equal(frame[:100], noise(FRAME_SAMPLES + 100)[-100:])
    assert not frame[100:].any()
    assert fifo.ended
    assert not fifo.frame_ready


def test_what_comes_after_the_end_in_real_time_is_dropped() -> None:
    fifo = PcmFifo()
    fifo.end()
    fifo.put(0.0, noise(100))
    assert fifo.ended
    assert fifo.counters.dropped_samples == 100


# In real time


@pytest.mark.parametrize(
    "sound", [tone(SAMPLE_RATE), talk(60.0), 0.1 * noise(60 * SAMPLE_RATE)], ids=["tone", "speech", "noise"]
)
def test_batches_of_a_tab_in_the_background_are_heard_without_holes_and_the_delay_falls_back_after_them(
    sound: FloatSamples,
) -> None:
    """Its timers run once a second. Then it is frozen for 30 s, and all of that comes at once."""
    arrivals = [
        *each(CHUNK, 0, 10),
        *each(SAMPLE_RATE, 10, 70),
        *each(CHUNK, 70, 90),
        (120.0, 30 * SAMPLE_RATE),
        *each(CHUNK, 120, 140),
    ]
    call = hold(arrivals, 140, sound)
    assert call.left(1, 10).max() <= 20
    assert call.missing(1, 10) == 0
    assert call.missing(9.9, 12) <= 1000  # until the first batch is there
    assert call.missing(12, 89) == 0
    assert call.left(10, 72).max() <= 1000
    assert call.left(76, 90).max() <= 210
    assert call.left(84, 90).max() <= 30
    assert call.missing(90.2, 119.9) == pytest.approx(29_700, abs=160)  # the engine hears silence, not old speech
    assert call.left(120, 121).max() <= 1000
    assert call.left(126, 140).max() <= 210
    assert call.left(134, 140).max() <= 30
    assert call.missing(120.2, 140) == 0
    assert 29_000 <= call.counters.dropped_samples / SAMPLES_PER_MS <= 29_100


def test_a_backlog_in_small_messages_is_cut_down_to_the_newest_second_too() -> None:
    fifo, row = PcmFifo(), noise(30 * SAMPLE_RATE)
    for chunk in np.split(row, 1500):
        fifo.put(0.0, chunk)
    newest = row[-SAMPLE_RATE - FRAME_SAMPLES :]
    heard = np.concatenate([fifo.take(0.0) for _ in range(14)])[: newest.size]
    np.testing.assert_array_equal(heard[120:], newest[120:])


def test_an_hour_of_a_fast_clock_adds_no_delay_and_loses_no_word() -> None:
    """200 ppm are 720 ms an hour: they are cut out of the pauses."""
    call = hold(each(FRAME_SAMPLES, 0, 3601, ppm=200), 3600, talk(60.0))
    counters = call.counters
    assert counters.frames == 45_000
    assert counters.dropped_samples == 0
    assert counters.missing_samples <= 2 * FRAME_SAMPLES  # at the very beginning
    assert call.left(10, 3600).max() <= 80 + 30
    assert np.percentile(call.left(10, 3600), 90) <= 30
    assert 600 <= counters.trimmed_samples / SAMPLES_PER_MS <= 800
    assert 5 <= counters.trims <= 100


def test_a_tone_by_a_fast_clock_stays_whole_and_keeps_its_pitch() -> None:
    call = hold(each(CHUNK, 0, 601, ppm=400), 600, tone(SAMPLE_RATE))
    assert call.counters.trims >= 8
    assert call.left(30, 600).max() <= 60
    pcm = call.pcm[SAMPLE_RATE:]
    assert steepest(pcm) < STEEPEST
    assert np.sqrt(np.mean(np.square(pcm.reshape(-1, 480)), axis=1)).min() > 0.2
    crossings = np.count_nonzero(np.diff(np.signbit(pcm)))
    assert crossings / 2 / (pcm.size / SAMPLE_RATE) == pytest.approx(440, abs=0.1)


def test_an_hour_of_a_slow_clock_is_filled_up_with_as_much_silence_as_it_lacks() -> None:
    call = hold(each(FRAME_SAMPLES, 0, 3600, ppm=-200), 3600, talk(60.0))
    assert call.left_ms.max() <= 80
    assert call.missing(1, 3600) == pytest.approx(720, abs=80)
    assert call.counters.dropped_samples == 0


@pytest.mark.parametrize("phase_s", [0.0, 0.02, 0.04, 0.06])
@pytest.mark.parametrize("chunk_ms", [20, 80])
def test_on_a_network_with_jitter_the_delay_settles_where_there_are_no_holes(phase_s: float, chunk_ms: int) -> None:
    even = each(chunk_ms * SAMPLES_PER_MS, 0, 60)
    late = np.random.default_rng(5).uniform(0, 0.03, len(even))
    arrivals = sorted((at + by, size) for (at, size), by in zip(even, late, strict=True))
    call = hold(arrivals, 60, talk(60.0), phase_s)
    assert call.missing(25, 60) == 0
    waiting = call.left(25, 60)
    assert waiting.min() <= 30  # not more than what the latest chunk needs...
    assert waiting.max() <= 30 + 30 + chunk_ms  # ...which the earliest ones find waiting


def test_after_a_standstill_the_delay_comes_back_within_seconds() -> None:
    arrivals = [(max(at, 16.0) if at >= 15.0 else at, size) for at, size in each(CHUNK, 0, 40)]
    call = hold(arrivals, 40, talk(60.0))
    assert call.left(16, 17).max() > 800
    assert call.left(22, 40).max() <= 210
    assert call.left(30, 40).max() <= 30
    assert call.missing(16.1, 40) == 0
    assert call.counters.dropped_samples == 0
