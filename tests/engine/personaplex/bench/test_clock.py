import time

import torch

from rtc_server.engine.personaplex.bench.clock import (
    WARM_UP_ROUNDS,
    CpuClock,
    Sample,
    by_turns,
    bytes_per_second,
    clock_of,
)


class Scripted:
    """A subject whose calls take what they are told."""

    def __init__(self, name: str, calls: list[str], cpu_ms: list[float], wall_ms: list[float]) -> None:
        self._name, self._calls = name, calls
        self._samples = iter([Sample(*pair) for pair in zip(cpu_ms, wall_ms, strict=True)])

    def sample(self) -> Sample:
        self._calls.append(self._name)
        return next(self._samples)


def test_subjects_take_turns_and_the_first_rounds_do_not_count() -> None:
    calls: list[str] = []
    warm_up = [1000.0] * WARM_UP_ROUNDS
    a = Scripted("a", calls, [*warm_up, 3, 1, 2], [*warm_up, 9, 7, 8])
    b = Scripted("b", calls, [*warm_up, 30, 10, 20], [*warm_up, 90, 70, 80])
    first, second = by_turns([a, b], 3, one_thread=True)
    assert calls == ["a", "b"] * (WARM_UP_ROUNDS + 3)
    assert (first.ms, first.best_ms) == (2, 7)
    assert (second.ms, second.best_ms) == (20, 70)


def test_with_several_threads_the_time_that_went_by_is_what_counts() -> None:
    wall_ms = [1000.0] * WARM_UP_ROUNDS + [9.0, 7.0, 8.0]
    timing = by_turns([Scripted("a", [], [0.0] * len(wall_ms), wall_ms)], 3, one_thread=False)[0]
    assert (timing.ms, timing.best_ms) == (8, 7)


def test_on_a_cpu_waiting_takes_no_time() -> None:
    sample = CpuClock().time(lambda: time.sleep(0.05))
    assert sample.wall_ms >= 50
    assert sample.cpu_ms < sample.wall_ms / 2


def test_the_memory_gives_something() -> None:
    clock = clock_of(torch.device("cpu"))
    assert bytes_per_second(clock, torch.device("cpu"), 1 << 22) > 1e6
