from __future__ import annotations

import numpy as np

from rtc_server.media.pcm import to_float, to_int16


def test_every_int16_value_survives_the_way_there_and_back() -> None:
    every = np.arange(-32768, 32768).astype(np.int16).reshape(1, -1)
    there = np.empty(every.shape, np.float32)
    to_float(every, there)
    assert there.min() == -1.0 and there.max() < 1.0
    np.testing.assert_array_equal(to_int16(there), every)


def test_samples_are_rounded_clipped_and_never_wrap() -> None:
    pcm = np.array([[1.5, -1.5, 1.0, 0.6 / 32768, -0.6 / 32768, np.nan, np.inf, -np.inf]], np.float32)
    assert to_int16(pcm).tolist() == [[32767, -32768, 32767, 1, -1, 0, 32767, -32768]]


def test_converted_rows_do_not_change_with_the_steppers_buffer() -> None:
    buffer = np.full((1, 1920), 0.5, np.float32)
    kept = to_int16(buffer)
    buffer.fill(0)
    assert kept[0, 0] == 16384
