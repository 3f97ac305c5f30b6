"""The demo agent as an engine: all slots, one worker, no step that waits."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade import dialogue
from rtc_server.engine.cascade.conversation import Conversation
from rtc_server.engine.cascade.models import Models, load_models
from rtc_server.engine.cascade.worker import Job, Speak, Voiced, Worker
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, FloatFrames, FrameSpec, Heard, SessionPrompt, StepOutput
from rtc_server.log import get_logger

log = get_logger(__name__)

SUMMARY = (
    "Demo engine (no GPU): a small local speech pipeline, not PersonaPlex. "
    "It hears English and answers from a small set of skills."
)
SUMMARY_WITHOUT_WORDS = (
    "Demo engine (no GPU): a small local speech pipeline, not PersonaPlex. "
    "Its speech recogniser is missing, so it talks and can be interrupted, but it understands no words."
)
VOICE = "default"
_PREFILL_WAIT_S = 0.02
"""At most so long does `prefill` sit on the engine thread; it is asked again in the next tick's spare time."""


def _local_time() -> datetime:
    return datetime.now().astimezone()


class CascadeStepper:
    """`FrameStepper` on the CPU. Loads and warms up its models on construction, which takes about two seconds.

    Recogniser and voice run on one worker thread for all slots; `step` hands over jobs and takes results, each fenced
    by the generation of its slot, so that a slot that was given on never hears its former user.
    """

    def __init__(
        self,
        slots: int,
        options: EngineOptions | None = None,
        *,
        models: Models | None = None,
        clock: Callable[[], datetime] = _local_time,
    ) -> None:
        """Raises: EngineError when a package of the extra ``demo`` is missing."""
        models = models or load_models(options.asr_model if options else None)
        self.slots = slots
        self._understands = models.recogniser is not None
        self._sample = np.zeros(0, np.float32)
        self.spec = FrameSpec(
            name="cascade",
            voices=(VOICE,),
            summary=SUMMARY if self._understands else SUMMARY_WITHOUT_WORDS,
            persona_note="The demo engine takes a name from it (“Your name is Ada.”), and nothing else.",
            voice_samples=(VOICE,),
        )
        self._clock = clock
        self._ears = [models.make_ear() for _ in range(slots)]
        self._conversations: list[Conversation | None] = [None] * slots
        self._generations = [0] * slots
        self._pcm = np.zeros((slots, FRAME_SAMPLES), np.float32)
        self._worker = Worker(models.recogniser, models.voice)
        weakref.finalize(self, self._worker.stop)
        self._voice_default_greeting()

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        self.close(slot)
        self._ears[slot].reset()
        generation = self._generations[slot]

        def submit(job: Job) -> None:
            self._worker.submit(slot, generation, job)

        self._conversations[slot] = Conversation(
            prompt, self._ears[slot], submit, self._clock, understands=self._understands
        )

    def prefill(self, slot: int, budget_s: float) -> bool:
        """Waits for the sound of the greeting, which is there at once unless the persona changes it."""
        self._deliver()
        conversation = self._conversations[slot]
        if conversation is None or conversation.ready:
            return True
        self._worker.wait_for_result(min(budget_s, _PREFILL_WAIT_S))
        self._deliver()
        return conversation.ready

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        self._deliver()
        text: list[str | None] = [None] * self.slots
        heard: list[tuple[Heard, ...]] = [()] * self.slots
        failed = set()
        self._pcm[:] = 0.0
        for slot in map(int, np.flatnonzero(live)):
            conversation = self._conversations[slot]
            if conversation is None:
                continue
            try:
                text[slot], heard[slot] = conversation.step(pcm[slot], self._pcm[slot])
            except Exception as error:  # a slot fails alone; the loop ends its session
                log.error("conversation failed", slot=slot, error=type(error).__name__, exc_info=True)
                self._pcm[slot] = 0.0
                failed.add(slot)
        return StepOutput(self._pcm, text, heard, frozenset(failed))

    def close(self, slot: int) -> None:
        self._generations[slot] += 1
        self._conversations[slot] = None
        self._worker.forget(slot)

    def voice_sample(self, voice: str) -> NDArray[np.float32]:
        """See `SupportsVoiceSamples`: what a caller hears first."""
        return self._sample

    def shutdown(self) -> None:
        """The last call: ends the worker thread."""
        self._worker.stop()
        self._worker.join()

    def drain(self, timeout_s: float = 30.0) -> bool:
        """Wait until recogniser and voice have nothing left to do. For tests and offline runs: a clock doesn't wait."""
        return self._worker.drain(timeout_s)

    def _deliver(self) -> None:
        for slot, generation, result in self._worker.take_results():
            conversation = self._conversations[slot]
            if conversation is not None and generation == self._generations[slot]:
                conversation.deliver(result)

    def _voice_default_greeting(self) -> None:
        """Into the voice's cache, so that the first caller is greeted at once. Its first sentence is the sample."""
        for sentence in dialogue.greeting(dialogue.first_memory(None, None), understands=self._understands):
            if self.slots:
                self._worker.submit(0, self._generations[0], Speak(0, sentence))
                self._worker.drain()
        spoken = [result.pcm for _, _, result in self._worker.take_results() if isinstance(result, Voiced)]
        self._sample = next((pcm for pcm in spoken if len(pcm)), self._sample)
