"""An echo that begins with saying who it is: its first piece of text is ``PERSONA|VOICE``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import Capabilities, FloatFrames, FrameSpec, SessionPrompt, StepOutput

USUAL_VOICE, OTHER_VOICE = "alto", "bass"


class NamingEcho(EchoStepper):
    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        self.spec = FrameSpec(
            name="naming-echo",
            summary="Says who it is, and then repeats your own voice.",
            voices=(USUAL_VOICE, OTHER_VOICE),
            capabilities=Capabilities(input=("audio",), output=("audio", "text"), proactive=False),
            hears_interruptions=True,
        )
        self._names: list[str | None] = [None] * slots

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        self._names[slot] = f"{prompt.persona or ''}|{prompt.voice or USUAL_VOICE}"

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        for slot in np.flatnonzero(live):
            output.text[slot], self._names[slot] = self._names[slot], None
        return output
