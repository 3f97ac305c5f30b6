"""What goes into one tick and what comes out of it. Sans-IO."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.client import Lease, TickResult
from rtc_server.engine.stepper import FRAME_SAMPLES, StepOutput
from rtc_server.errors import EngineError, RtcServerError


@dataclass(eq=False, slots=True)
class Exchange:
    """One call of a client, from `EngineLoop.submit` until the turn that answers it.

    Exactly one of `result` and `error` is set once `EngineLoop.poll` has returned it.
    """

    leases: tuple[Lease, ...]
    seq: int
    answered_s: float = 0.0
    """When `result` was made: its `next_tick_in_s` counts from here."""
    result: TickResult | None = None
    error: RtcServerError | None = None

    def result_at(self, now: float) -> TickResult | None:
        """`result`, with `next_tick_in_s` counted from `now`: whoever waits for it may be woken late."""
        if self.result is None:
            return None
        left_s = max(0.0, self.result.next_tick_in_s - (now - self.answered_s))
        return dataclasses.replace(self.result, next_tick_in_s=left_s)


@dataclass(slots=True)
class Turn:
    """What one turn of the loop has for its clients."""

    done: list[Exchange] = field(default_factory=list)
    freed: bool = False
    """At least one slot became free."""


@dataclass(slots=True)
class Tick:
    """One tick: its input is taken from the tables under the lock, so that nobody changes it during the step."""

    number: int
    """Of the edge that it counts for."""
    shed: int
    exchanges: list[Exchange]
    live: NDArray[np.bool_]
    """[slots]"""
    stepped: bool
    """At least one slot is live."""
    step_s: float = 0.0
    output: StepOutput | None = None
    """None when the step raised."""
    pcm: NDArray[np.int16] | None = None
    """`output.pcm`, converted."""
    broken: frozenset[int] = frozenset()
    """Slots that the step broke."""


def check_output(output: StepOutput, slots: int) -> None:
    """Raises: EngineError if the output does not have the shape of the contract."""
    if output.pcm.shape != (slots, FRAME_SAMPLES):
        raise EngineError(f"step returned pcm {list(output.pcm.shape)} instead of {[slots, FRAME_SAMPLES]}")
    if len(output.text) != slots or len(output.heard) != slots:
        raise EngineError(
            f"step returned {len(output.text)} texts and {len(output.heard)} heard for {slots} slots",
            hint="give each list one entry per slot",
        )
    if not all(text is None or isinstance(text, str) for text in output.text):
        raise EngineError("step returned a text that is neither a string nor None")
    if not all(isinstance(heard, tuple) for heard in output.heard):
        raise EngineError("step returned a heard that is no tuple", hint="nothing heard is ()")


def broken_slots(output: StepOutput, live: NDArray[np.bool_]) -> frozenset[int]:
    """Slots that the stepper reports as failed, and live ones whose audio is not finite."""
    finite = np.isfinite(output.pcm).all(axis=1)
    reported = (int(index) for index in output.failed if 0 <= index < len(live))
    return frozenset((*reported, *np.flatnonzero(live & ~finite).tolist()))
