from __future__ import annotations

import numpy as np
import pytest

from rtc_server.engine.stepper import FRAME_SAMPLES, StepOutput
from rtc_server.engine.tick import broken_slots, check_output, to_float, to_int16
from rtc_server.errors import EngineError


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
    buffer = np.full((1, FRAME_SAMPLES), 0.5, np.float32)
    kept = to_int16(buffer)
    buffer.fill(0)
    assert kept[0, 0] == 16384


@pytest.mark.parametrize(
    "output",
    [
        StepOutput(np.zeros((2, 960), np.float32), [None, None], [(), ()]),
        StepOutput(np.zeros((1, FRAME_SAMPLES), np.float32), [None, None], [(), ()]),
        StepOutput(np.zeros((2, FRAME_SAMPLES), np.float32), [None], [(), ()]),
        StepOutput(np.zeros((2, FRAME_SAMPLES), np.float32), [None, None], []),
        StepOutput(np.zeros((2, FRAME_SAMPLES), np.float32), [None, 3], [(), ()]),  # type: ignore[list-item]
        StepOutput(np.zeros((2, FRAME_SAMPLES), np.float32), [None, ""], [(), None]),  # type: ignore[list-item]
    ],
)
def test_output_that_does_not_fit_the_contract_is_an_engine_error(output: StepOutput) -> None:
    with pytest.raises(EngineError, match="step returned"):
        check_output(output, slots=2)


def test_broken_are_those_that_say_so_and_live_ones_that_are_not_finite() -> None:
    pcm = np.zeros((4, FRAME_SAMPLES), np.float32)
    pcm[1, 7] = np.nan
    pcm[2, 0] = np.inf
    output = StepOutput(pcm, [None] * 4, [()] * 4, failed=frozenset({3, 99, -1}))
    assert broken_slots(output, np.array([True, True, False, True])) == {1, 3}
