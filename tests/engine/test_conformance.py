"""The conformance check finds what it is there to find: each stepper here breaks one law."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server.engine.conformance import ConformanceError, check_stepper
from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, FloatFrames, FrameStepper, Heard, SessionPrompt, StepOutput


class Lawful(EchoStepper):
    """An echo that is one frame late, so that it has something to remember; and that can break."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots, EngineOptions(slots=slots))
        self.spec = dataclasses.replace(self.spec, voice_samples=("default",))
        self.last = np.zeros((slots, FRAME_SAMPLES), np.float32)
        self.broken: set[int] = set()

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        self.last[slot] = 0.0

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        out = self.last.copy()
        self.last[live] = pcm[live]
        return StepOutput(out, [None] * self.slots, [()] * self.slots, frozenset(self.broken))

    def close(self, slot: int) -> None:
        self.broken.discard(slot)

    def voice_sample(self, voice: str) -> NDArray[np.float32]:
        return np.full(100, 0.1, np.float32)


class Soundless(Lawful):
    def voice_sample(self, voice: str) -> NDArray[np.float32]:
        return np.zeros(0, np.float32)


class Forgetful(Lawful):
    def open(self, slot: int, prompt: SessionPrompt) -> None:
        """Keeps the old conversation."""


class HearsNeighbours(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        output.pcm[:] = (output.pcm + output.pcm[live].sum(axis=0)) / 4
        return output


class NeverStandsStill(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        return super().step(pcm, np.ones_like(live))


class WritesToItsInput(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        pcm *= 0.5
        return output


class WrongType(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        output.pcm = output.pcm.astype(np.float64)  # type: ignore[assignment]
        return output


class WrongShape(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        output.pcm = output.pcm[live]
        return output


class TooLoud(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        output.pcm *= 2.0
        return output


class NotFinite(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        with np.errstate(all="ignore"):
            output.pcm /= np.abs(pcm).max()
        return output


class HearsTheFuture(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        output.heard = [(Heard("later", 0, 1000, True),)] * self.slots
        return output


class SaysNumbers(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        output.text = [3] * self.slots  # type: ignore[list-item]
        return output


class DependsOnItsNumber(Lawful):
    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        output.pcm *= np.linspace(0.5, 1.0, self.slots, dtype=np.float32)[:, None]
        return output


class NeverReady(Lawful):
    def prefill(self, slot: int, budget_s: float) -> bool:
        return False


class Raises(Lawful):
    def close(self, slot: int) -> None:
        raise RuntimeError("cannot close")


class Nameless(Lawful):
    def __init__(self, slots: int) -> None:
        super().__init__(slots + 1)


def _break(stepper: FrameStepper, slot: int) -> None:
    assert isinstance(stepper, Lawful)
    stepper.broken.add(slot)


def test_a_lawful_stepper_passes_and_the_laws_are_named() -> None:
    laws = check_stepper(Lawful, break_slot=_break)
    assert "neighbours do not hear each other" in laws
    assert "a broken slot fails alone" in laws


@pytest.mark.parametrize(
    ("stepper", "message"),
    [
        (Forgetful, "close does not forget"),
        (HearsNeighbours, "a neighbour changes the answer"),
        (NeverStandsStill, "did not stand still"),
        (WritesToItsInput, "wrote to its input"),
        (WrongType, "float64, not float32"),
        (WrongShape, "pcm has shape"),
        (TooLoud, r"beyond \[-1, 1\]"),
        (NotFinite, "not finite"),
        (HearsTheFuture, "heard frames 0..1000"),
        (SaysNumbers, "text is int"),
        (DependsOnItsNumber, "depends on the slot's number"),
        (NeverReady, "prefill is not over"),
        (Raises, "raised RuntimeError: cannot close"),
        (Soundless, "the sample of voice 'default' is no sound"),
        (Nameless, "slots is 4 after it was built for 3"),
    ],
)
def test_a_broken_law_is_named(stepper: type[Lawful], message: str) -> None:
    with pytest.raises(ConformanceError, match=message):
        check_stepper(stepper, prefill_limit_s=0.01)


def test_a_slot_that_breaks_without_saying_so_is_found() -> None:
    with pytest.raises(ConformanceError, match=r"slot 1 was broken, and step says that \[\] failed"):
        check_stepper(Lawful, break_slot=lambda stepper, slot: None)


def test_an_engine_that_is_not_deterministic_is_checked_but_not_compared() -> None:
    check_stepper(DependsOnItsNumber, deterministic=False)
    with pytest.raises(ConformanceError, match="beyond"):
        check_stepper(TooLoud, deterministic=False)
