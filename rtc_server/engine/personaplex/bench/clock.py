"""Taking the time of things in turn, and what this machine's memory gives."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch

WARM_UP_ROUNDS = 3
BUFFER_BYTES = {"cpu": 1 << 30, "cuda": 1 << 31}
"""Several times the largest cache."""
BANDWIDTH_ROUNDS = 5


class Sample(NamedTuple):
    """What one call took. On a GPU both are the time on the device."""

    cpu_ms: float
    """CPU time of the process: other load on the machine does not count."""
    wall_ms: float


class Subject(Protocol):
    """Something whose calls take time."""

    def sample(self) -> Sample:
        """One call."""


class Timing(NamedTuple):
    """What many calls of a subject took."""

    ms: float
    """The figure: the median. Of CPU time where one thread works, else of the time that went by."""
    best_ms: float
    """The shortest time that went by."""


class Clock(Protocol):
    """How time is taken on one kind of device."""

    one_thread: bool

    def time(self, call: Callable[[], object]) -> Sample: ...


class CpuClock:
    def __init__(self) -> None:
        self.one_thread = torch.get_num_threads() == 1

    def time(self, call: Callable[[], object]) -> Sample:
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        call()
        return Sample((time.process_time() - cpu_s) * 1e3, (time.perf_counter() - wall_s) * 1e3)


class GpuClock:
    """Time between two marks in the stream."""

    one_thread = False

    def time(self, call: Callable[[], object]) -> Sample:
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        call()
        end.record()
        end.synchronize()
        ms = begin.elapsed_time(end)
        return Sample(ms, ms)


def clock_of(device: torch.device) -> Clock:
    return GpuClock() if device.type == "cuda" else CpuClock()


def by_turns(subjects: Sequence[Subject], rounds: int, *, one_thread: bool) -> list[Timing]:
    """Each subject once a round, after a few rounds that do not count."""
    samples: list[list[Sample]] = [[] for _ in subjects]
    for number in range(WARM_UP_ROUNDS + rounds):
        for subject, taken in zip(subjects, samples, strict=True):
            sample = subject.sample()
            if number >= WARM_UP_ROUNDS:
                taken.append(sample)
    return [_timing(taken, one_thread) for taken in samples]


def _timing(samples: Sequence[Sample], one_thread: bool) -> Timing:
    wall_ms = [sample.wall_ms for sample in samples]
    ms = statistics.median(sample.cpu_ms for sample in samples) if one_thread else statistics.median(wall_ms)
    return Timing(ms, min(wall_ms))


def bytes_per_second(clock: Clock, device: torch.device, buffer_bytes: int | None = None) -> float:
    """The best of several plain ways to go through a buffer much larger than any cache."""
    count = (buffer_bytes or BUFFER_BYTES.get(device.type, 1 << 30)) // 4
    buffer = torch.ones(count, device=device)
    half, other = buffer[: count // 2], buffer[count // 2 :]
    row, matrix = buffer[None, :512], buffer[: count // 512 * 512].view(512, -1)
    ways: list[Callable[[], object]] = [
        lambda: buffer.sum(),
        lambda: half.copy_(other),
        lambda: torch.mm(row, matrix),
    ]
    samples = [clock.time(way) for _ in range(BANDWIDTH_ROUNDS) for way in ways]
    return buffer.nbytes / min(s.cpu_ms if clock.one_thread else s.wall_ms for s in samples) * 1e3
