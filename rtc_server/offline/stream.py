"""Recordings through the slots of one engine, all from frame 0, step after step as fast as it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import (
    FRAME_SAMPLES,
    FrameStepper,
    Heard,
    SessionPrompt,
    StepOutput,
    SupportsDrain,
)
from rtc_server.engine.tick import broken_slots, check_output
from rtc_server.log import get_logger
from rtc_server.media.pcm import to_float, to_int16
from rtc_server.media.wav import Samples

log = get_logger(__name__)

PREFILL_BUDGET_S = 1.0
"""Nobody waits for a frame meanwhile."""


@dataclass(frozen=True, slots=True)
class AgentFrame:
    """What the engine gave for one frame of one recording."""

    pair: int
    frame: int
    pcm: Samples
    """[1920]"""
    text: str | None
    tokens: NDArray[np.int64] | None
    """[17] from engines that speak in tokens, once the conversation has its first whole frame."""
    heard: tuple[Heard, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """A conversation that broke; nothing more comes of it."""

    pair: int
    frame: int
    reason: str


def frames_of(samples: Samples) -> int:
    """Frames that hold so many samples, the last one filled up with silence."""
    return -(-len(samples) // FRAME_SAMPLES)


def stream(
    stepper: FrameStepper, recordings: Sequence[Samples], prompts: Sequence[SessionPrompt]
) -> Iterator[AgentFrame | Failure]:
    """Recording i talks to slot i. Frame after frame, and in it pair after pair; a recording that ends leaves its slot.

    What breaks, breaks alone, as in a call: a slot that the stepper reports, whose audio is not finite, or whose `open`
    or `prefill` raises. A `step` that raises ends all conversations that were live in it.
    """
    conversations = _Conversations(stepper, recordings)
    try:
        yield from conversations.open(prompts)
        while conversations.live:
            yield from conversations.step()
    finally:
        conversations.close_all()


class _Conversations:
    def __init__(self, stepper: FrameStepper, recordings: Sequence[Samples]) -> None:
        self._stepper = stepper
        self._recordings = recordings
        self._frame = 0
        self._opened: set[int] = set()
        self.live: list[int] = []

    def open(self, prompts: Sequence[SessionPrompt]) -> Iterator[Failure]:
        for slot, prompt in enumerate(prompts):
            self._opened.add(slot)
            try:
                self._stepper.open(slot, prompt)
                while not self._stepper.prefill(slot, PREFILL_BUDGET_S):
                    pass
            except Exception as error:  # whatever an engine of somebody else's does
                log.exception("slot does not open", slot=slot)
                yield self._fail(slot, _described(error))
            else:
                self.live.append(slot)

    def step(self) -> Iterator[AgentFrame | Failure]:
        try:
            output, pcm, broken = self._stepped()
        except Exception as error:
            log.exception("step raised", frame=self._frame)
            for slot in list(self.live):
                yield self._fail(slot, _described(error))
            return
        for slot in list(self.live):
            if slot in broken:
                yield self._fail(slot, "the engine gave the slot up")
                continue
            tokens = None if output.tokens is None or (output.tokens[slot] < 0).all() else output.tokens[slot].copy()
            yield AgentFrame(slot, self._frame, pcm[slot], output.text[slot], tokens, output.heard[slot])
        self._frame += 1
        for slot in list(self.live):
            if self._frame >= frames_of(self._recordings[slot]):
                self.live.remove(slot)
                self._close(slot)

    def _stepped(self) -> tuple[StepOutput, NDArray[np.int16], frozenset[int]]:
        slots = self._stepper.slots
        if isinstance(self._stepper, SupportsDrain):
            self._stepper.drain()
        pcm = np.zeros((slots, FRAME_SAMPLES), np.int16)
        live = np.zeros(slots, np.bool_)
        start = self._frame * FRAME_SAMPLES
        for slot in self.live:
            said = self._recordings[slot][start : start + FRAME_SAMPLES]
            pcm[slot, : len(said)] = said
            live[slot] = True
        output = self._stepper.step(to_float(pcm), live)
        check_output(output, slots)
        return output, to_int16(output.pcm), broken_slots(output, live)

    def _fail(self, slot: int, reason: str) -> Failure:
        if slot in self.live:
            self.live.remove(slot)
        self._close(slot)
        return Failure(slot, self._frame, reason)

    def _close(self, slot: int) -> None:
        self._opened.discard(slot)
        try:
            self._stepper.close(slot)
        except Exception:
            log.exception("close raised", slot=slot)

    def close_all(self) -> None:
        for slot in sorted(self._opened):
            self._close(slot)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
