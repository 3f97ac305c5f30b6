from __future__ import annotations

import numpy as np
import pytest

from rtc_server.engine.stepper import FRAME_SAMPLES, StepOutput
from rtc_server.engine.tick import broken_slots, check_output
from rtc_server.errors import EngineError


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
