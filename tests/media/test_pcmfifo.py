from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE
from rtc_server.media.pcmfifo import PcmFifo


def test_chunks_of_any_size_become_frames() -> None:
    fifo = PcmFifo()
    row = np.random.default_rng(0).uniform(-1, 1, 3 * FRAME_SAMPLES).astype(np.float32)
    for chunk in np.split(row, [1, 700, 701, 4000]):
        fifo.put(0.0, chunk)
    frames = np.concatenate([fifo.take(0.0) for _ in range(3)])
    np.testing.assert_array_equal(frames, row)
    assert fifo.counters.missing_samples == 0


def test_int16_is_scaled_to_one() -> None:
    fifo = PcmFifo()
    fifo.put(0.0, np.full(FRAME_SAMPLES, -32768, np.int16))
    assert (fifo.take(0.0) == -1.0).all()


def test_nothing_there_is_silence_and_counted() -> None:
    fifo = PcmFifo()
    fifo.put(0.0, np.full(1000, 0.5, np.float32))
    frame = fifo.take(0.0)
    assert frame[500] == 0.5
    assert frame[999] == 0
    assert not frame[1000:].any()
    assert fifo.counters.missing_samples == FRAME_SAMPLES - 1000


def test_more_than_the_bound_pushes_out_the_oldest() -> None:
    fifo = PcmFifo(max_ms=100)
    fifo.put(0.0, np.arange(5000, dtype=np.float32) / 5000)
    assert fifo.queued_samples == 2400
    assert fifo.counters.dropped_samples == 2600
    assert fifo.take(0.0)[0] == np.float32(2600) / 5000


def test_what_is_no_number_is_made_one() -> None:
    fifo = PcmFifo()
    fifo.put(0.0, np.array([np.nan, np.inf, -np.inf] * 640, np.float32))
    frame = fifo.take(0.0)
    assert np.isfinite(frame).all()
    assert np.abs(frame).max() == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(0, 40_000)), max_size=40))
def test_every_sample_is_accounted_for(steps: list[int | None]) -> None:
    """None takes a frame, a number puts a chunk of that size."""
    fifo, put = PcmFifo(), 0
    for size in steps:
        if size is None:
            assert fifo.take(0.0).shape == (FRAME_SAMPLES,)
        else:
            fifo.put(0.0, np.ones(size, np.float32))
            put += size
        assert fifo.queued_samples <= SAMPLE_RATE
        counters = fifo.counters
        given_out = counters.frames * FRAME_SAMPLES - counters.missing_samples
        assert given_out + counters.dropped_samples + fifo.queued_samples == put


def test_skip_passes_over_what_waits_and_no_more() -> None:
    fifo = PcmFifo()
    fifo.put(0.0, np.arange(3 * FRAME_SAMPLES, dtype=np.float32) / 10_000)
    fifo.skip(2)
    assert fifo.take(0.0)[0] == pytest.approx(2 * FRAME_SAMPLES / 10_000)
    fifo.skip(5)
    assert fifo.queued_samples == 0
    assert fifo.counters.dropped_samples == 2 * FRAME_SAMPLES
