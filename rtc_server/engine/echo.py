"""The simplest engine: what it hears it says, in the same step. For tests, load and latency runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import (
    FRAME_SAMPLES,
    Capabilities,
    FloatFrames,
    FrameSpec,
    SessionPrompt,
    StepOutput,
)


class EchoStepper:
    """Deterministic and without a delay of its own: `step` returns the frame it was given.

    It declares that it hears interruptions, so that nothing is dropped when a caller speaks over their own echo.
    """

    def __init__(self, slots: int, options: EngineOptions) -> None:
        self.slots = slots
        self.spec = FrameSpec(
            name="echo",
            summary="Repeats your own voice at once: a test of the line that understands nothing.",
            capabilities=Capabilities(input=("audio",), output=("audio",), proactive=False),
            hears_interruptions=True,
        )
        self._pcm = np.zeros((slots, FRAME_SAMPLES), np.float32)

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        """Nothing to prepare: an echo has no persona."""

    def prefill(self, slot: int, budget_s: float) -> bool:
        return True

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        np.copyto(self._pcm, pcm)
        self._pcm[~live] = 0.0
        return StepOutput(self._pcm, text=[None] * self.slots, heard=[()] * self.slots)

    def close(self, slot: int) -> None:
        self._pcm[slot] = 0.0
