"""The real engine with an ear at its door: what comes in and goes out is written down, conversation by conversation.

As ``--engine tests.e2e.tapped:TappedPersonaPlex``, with TAP_FOLDER saying where to.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.personaplex.stepper import PersonaPlexStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FloatFrames, SessionPrompt, StepOutput
from rtc_server.media.pcm import to_int16
from tests.engine.personaplex.fixedshapes import fix_shapes


class SteadyPersonaPlex(PersonaPlexStepper):
    """The same arithmetic in a call and offline, whoever else is there."""

    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        fix_shapes(self)


class TappedPersonaPlex(SteadyPersonaPlex):
    """Gives each conversation a seed that is known later. Files: N.json the prompt, N.pcm int16, N.jsonl tokens."""

    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        self._folder = Path(os.environ["TAP_FOLDER"])
        self._opened = self._spoke = 0
        self._prompts: dict[int, SessionPrompt] = {}
        self._number: dict[int, int] = {}

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        self._prompts[slot] = seeded = dataclasses.replace(prompt, seed=1000 + self._opened)
        self._number.pop(slot, None)
        self._opened += 1
        super().open(slot, seeded)

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        assert output.tokens is not None
        for slot in np.flatnonzero(live).tolist():
            if slot not in self._number:  # a slot that is given back before its first frame is no conversation
                self._number[slot], self._spoke = self._spoke, self._spoke + 1
                told = json.dumps(dataclasses.asdict(self._prompts[slot]))
                (self._folder / f"{self._number[slot]}.json").write_text(told)
            number = self._number[slot]
            with (self._folder / f"{number}.pcm").open("ab") as heard:
                heard.write(to_int16(pcm[slot]).tobytes())
            with (self._folder / f"{number}.jsonl").open("a") as said:
                said.write(json.dumps(output.tokens[slot].tolist()) + "\n")
        return output
