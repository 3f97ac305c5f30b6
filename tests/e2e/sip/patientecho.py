"""An echo that takes its time: a persona ``1.5`` gets ready for 1.5 s, and the phone of its caller rings so long."""

from __future__ import annotations

import time

from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import Capabilities, FrameSpec, SessionPrompt


class PatientEcho(EchoStepper):
    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        self.spec = FrameSpec(
            name="patient-echo",
            summary="Repeats your own voice after a while of ringing.",
            capabilities=Capabilities(input=("audio",), output=("audio",), proactive=False),
            hears_interruptions=True,
        )
        self._ready_s = [0.0] * slots

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        self._ready_s[slot] = time.monotonic() + float(prompt.persona or 0)

    def prefill(self, slot: int, budget_s: float) -> bool:
        return time.monotonic() >= self._ready_s[slot]
