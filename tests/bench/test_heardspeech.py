import numpy as np
import pytest

from rtc_server.bench.heardspeech import on_ticks, tick_phase_s
from rtc_server.engine.stepper import FRAME_S, FRAME_SAMPLES


def numbered(count: int) -> "np.ndarray[tuple[int, int], np.dtype[np.int16]]":
    """Frame k holds the sample value k + 1 throughout."""
    return np.repeat(np.arange(1, count + 1, dtype=np.int16)[:, None], FRAME_SAMPLES, axis=1)


def numbers_on_ticks(at_s: list[float]) -> tuple[float, list[int]]:
    first_s, sound = on_ticks(np.array(at_s), numbered(len(at_s)))
    return first_s, [round(float(frame[0]) * 32768) for frame in sound]


def test_steps_that_scatter_are_put_in_their_place() -> None:
    scatter_s = np.random.default_rng(1).uniform(-0.01, 0.01, 100)
    first_s, numbers = numbers_on_ticks((50.03 + np.arange(100) * FRAME_S + scatter_s).tolist())
    assert first_s == pytest.approx(50.03, abs=0.003)
    assert numbers == list(range(1, 101))


def test_a_tick_without_a_frame_is_silent() -> None:
    at_s = [tick * FRAME_S for tick in range(10) if tick not in (3, 4)]
    assert numbers_on_ticks(at_s)[1] == [1, 2, 3, 0, 0, 4, 5, 6, 7, 8]


def test_a_burst_after_a_stall_is_laid_on_the_ticks_that_were_missed() -> None:
    at_s = [0.0, 0.08, 0.401, 0.402, 0.403, 0.404, 0.48, 0.56]  # 0.16 to 0.40 came at once
    assert numbers_on_ticks(at_s)[1] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_no_frames_are_no_trouble() -> None:
    assert on_ticks(np.empty(0), np.empty((0, FRAME_SAMPLES), np.int16))[1].shape == (0, FRAME_SAMPLES)


def test_the_phase_is_found_across_the_wrap() -> None:
    at_s = np.arange(20) * FRAME_S + np.tile([-0.004, 0.004], 10)
    assert min(tick_phase_s(at_s), FRAME_S - tick_phase_s(at_s)) < 0.001
