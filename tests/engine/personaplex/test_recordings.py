"""What an engine heard in a call, kept as a recording, gives the same tokens again: whoever else was on the line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server.engine.client import Lease, SlotStatus
from rtc_server.engine.loop import EngineLoop
from rtc_server.engine.personaplex.stepper import PersonaPlexStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, FloatFrames, SessionPrompt, StepOutput
from rtc_server.offline.stream import AgentFrame, stream
from tests.engine.fakes import VirtualClock
from tests.engine.personaplex.fixedshapes import fix_shapes

PROMPTS = (SessionPrompt(persona="hi", voice="ALTO", seed=5), SessionPrompt(persona="", voice="BASS", seed=6))
FRAMES = (40, 26)
"""Of the calls: the first goes beyond the context of the tiny model, opening included."""
SLOTS = 4
LATER = 9
"""The second caller comes so many frames after the first."""


def noise(frames: int, seed: int) -> NDArray[np.int16]:
    return (
        (4000 * np.random.default_rng(seed).standard_normal(frames * FRAME_SAMPLES)).clip(-32768, 32767).astype("<i2")
    )


class Tapped(PersonaPlexStepper):
    """Keeps the tokens of each slot."""

    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        fix_shapes(self)
        self.said: list[list[NDArray[np.int64]]] = [[] for _ in range(slots)]

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        assert output.tokens is not None
        for slot in np.flatnonzero(live).tolist():
            self.said[slot].append(output.tokens[slot].copy())
        return output


def options(checkpoint: Path, slots: int) -> EngineOptions:
    return EngineOptions(slots=slots, model=str(checkpoint), device="cpu", dtype="f32")


def in_a_call(checkpoint: Path, recordings: list[NDArray[np.int16]]) -> list[list[NDArray[np.int64]]]:
    """Through the engine loop, on its clock: the second caller joins the first, and goes before it."""
    clock, stepper = VirtualClock(), Tapped(SLOTS, options(checkpoint, SLOTS))
    loop = EngineLoop(stepper, clock=clock)
    leases: dict[int, Lease] = {0: loop.reserve(PROMPTS[0])}
    sent = dict.fromkeys(range(len(PROMPTS)), 0)
    ready: set[int] = set()
    for seq in range(400):
        if sent[0] == LATER and 1 not in leases:
            leases[1] = loop.reserve(PROMPTS[1])
        frames = [recordings[caller][FRAME_SAMPLES * sent[caller] :][:FRAME_SAMPLES] for caller in leases]
        live = [caller in ready for caller in leases]
        exchange = loop.submit(list(leases.values()), live, seq, np.stack(frames))
        while exchange.result is None and exchange.error is None:
            clock.advance_to(loop.wake_s())
            loop.poll()
        assert exchange.result is not None
        for caller, output in zip(list(leases), exchange.result.outputs, strict=True):
            if output.status is SlotStatus.READY:
                ready.add(caller)
            if output.status is SlotStatus.LIVE:
                sent[caller] += 1
            if sent[caller] == FRAMES[caller]:
                loop.release(leases.pop(caller))
        if not leases:
            loop.shutdown()
            return stepper.said
    raise AssertionError("the calls did not come to an end")


@pytest.fixture(scope="module")
def recordings() -> list[NDArray[np.int16]]:
    return [noise(frames, seed) for seed, frames in enumerate(FRAMES)]


def replayed(checkpoint: Path, *pairs: tuple[NDArray[np.int16], SessionPrompt]) -> list[list[NDArray[np.int64]]]:
    stepper = fix_shapes(PersonaPlexStepper(SLOTS, options(checkpoint, SLOTS)))
    said: list[list[NDArray[np.int64]]] = [[] for _ in pairs]
    for event in stream(stepper, [pcm for pcm, _ in pairs], [prompt for _, prompt in pairs]):
        assert isinstance(event, AgentFrame) and event.tokens is not None
        said[event.pair].append(event.tokens)
    return said


def test_two_calls_replay_to_the_same_tokens_together_and_alone(
    checkpoint: Path, recordings: list[NDArray[np.int16]]
) -> None:
    live = in_a_call(checkpoint, recordings)
    together = replayed(checkpoint, *zip(recordings, PROMPTS, strict=True))
    for caller, (pcm, prompt) in enumerate(zip(recordings, PROMPTS, strict=True)):
        assert len(live[caller]) == FRAMES[caller]
        assert np.array_equal(together[caller], live[caller])
        assert np.array_equal(replayed(checkpoint, (pcm, prompt))[0], live[caller])


def test_another_seed_gives_other_tokens(checkpoint: Path, recordings: list[NDArray[np.int16]]) -> None:
    pcm = recordings[1]
    one, other = (replayed(checkpoint, (pcm, SessionPrompt(persona="", voice="BASS", seed=seed)))[0] for seed in (6, 7))
    assert not np.array_equal(one, other)
