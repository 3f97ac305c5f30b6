"""Steppers for engine processes: named as ``tests.engine.steppers:Class``, and told what to do by what they hear."""

from __future__ import annotations

import enum
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import (
    FloatFrames,
    FrameSpec,
    Heard,
    SamplingSettings,
    SessionPrompt,
    Setting,
    StepOutput,
)
from rtc_server.errors import BadRequest, ConfigError, EngineError

OBEDIENT = "tests.engine.steppers:Obedient"
LOADING = "tests.engine.steppers:Loading"
BURNING = "tests.engine.steppers:Burning"


class Command(enum.IntEnum):
    """Values of a frame's first sample."""

    SAY = 30001
    TAKE_LONG = 30002
    """0.3 s."""
    HANG = 30003
    RAISE = 30004
    DIE = 30005
    WRITE_GARBAGE = 30006
    """To the socket of the process."""
    COUNT = 30007
    """Answer with how often the slot was stepped."""


SAMPLING = SamplingSettings(Setting(0.8, 0, 10.0), Setting(250, 1, 250), Setting(0.7, 0, 10.0), Setting(25, 1, 250))


class Obedient(EchoStepper):
    """An echo that obeys commands, and prompts: the persona ``slow`` prefills in four calls, ``refuse`` is refused.

    The sample of the voice ``other`` counts up and takes 0.3 s, that of ``hoarse`` is refused.
    """

    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        self.spec = FrameSpec(
            name="obedient",
            summary="For tests.",
            device=f"terminal={sys.stderr.isatty()}",
            voices=("default", "other", "hoarse"),
            sampling=SAMPLING,
            voice_samples=("other", "hoarse"),
        )
        self._steps_left = [0] * slots
        self._stepped = np.zeros(slots, np.int64)

    def check_prompt(self, prompt: SessionPrompt) -> None:
        if prompt.persona == "refuse":
            raise BadRequest("persona 'refuse' is refused", hint="say anything else")

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        self._steps_left[slot] = 4 if prompt.persona == "slow" else 1

    def prefill(self, slot: int, budget_s: float) -> bool:
        self._steps_left[slot] -= 1
        return not self._steps_left[slot]

    def voice_sample(self, voice: str) -> NDArray[np.float32]:
        if voice == "hoarse":
            raise EngineError("the voice has gone")
        time.sleep(0.3)
        return np.arange(5000, dtype=np.float32) / 32768

    def progress(self, slot: int) -> tuple[int, int]:
        return 4 - self._steps_left[slot], 4

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        self._stepped += live
        for slot, first in enumerate(np.rint(pcm[:, 0] * 32768).astype(int).tolist()):
            match first:
                case Command.SAY:
                    output.text[slot] = "Grüße, \ud800 世界"  # with half of a character, as a bad tokenizer gives
                    output.heard[slot] = (Heard("hello", np.int64(3), np.int64(9), final=True),)  # type: ignore[arg-type]
                case Command.TAKE_LONG:
                    time.sleep(0.3)
                case Command.HANG:
                    time.sleep(60)
                case Command.RAISE:
                    raise RuntimeError("told to raise")
                case Command.WRITE_GARBAGE:
                    os.write(int(sys.argv[sys.argv.index("--fd") + 1]), b"\xff" * 64)
                case Command.COUNT:
                    output.pcm[slot] = self._stepped[slot] / 32768
                case Command.DIE:
                    os.kill(os.getpid(), signal.SIGKILL)
        return output


class Loading(Obedient):
    """Its constructor does what `EngineOptions.model` says."""

    def __init__(self, slots: int, options: EngineOptions) -> None:
        match (options.model or "").split("=", 1):
            case ["die"]:
                os.kill(os.getpid(), signal.SIGKILL)
            case ["abort"]:
                print("\033[31mno such kernel image\033[0m", file=sys.stderr, flush=True)
                os.abort()
            case ["exit"]:
                raise SystemExit(7)
            case ["refuse"]:
                raise ConfigError("slots=2 is too many", hint="set --slots 1")
            case ["raise"]:
                raise MemoryError("no room for the weights")
            case ["take-long"]:
                time.sleep(60)
            case ["need", path] if not Path(path).exists():
                raise ConfigError(f"{path} is not there", hint="put it back")
        super().__init__(slots, options)


class Burning(EchoStepper):
    """Computes in Python, so that it holds the interpreter lock: 20 ms a step, and half a second for a prompt."""

    STEP_S = 0.020
    PROMPT_S = 0.5

    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        self._left_s = [0.0] * slots

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        self._left_s[slot] = self.PROMPT_S

    def prefill(self, slot: int, budget_s: float) -> bool:
        self._left_s[slot] -= _burn(min(budget_s, self._left_s[slot]))
        return self._left_s[slot] <= 0

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        _burn(self.STEP_S)
        return super().step(pcm, live)


def _burn(seconds: float) -> float:
    began_s = time.monotonic()
    while (took_s := time.monotonic() - began_s) < seconds:
        sum(range(500))
    return took_s
