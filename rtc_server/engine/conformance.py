"""Does a stepper keep the laws of the contract? For authors of engines, and for our own tests.

::

    from rtc_server.engine.conformance import check_stepper

    def test_my_engine_keeps_the_contract() -> None:
        check_stepper(lambda slots: MyStepper(slots, EngineOptions(slots=slots)))

The stepper is driven as `EngineLoop` drives it, but as fast as it goes. All of it runs on the caller's thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import (
    FRAME_RATE,
    FRAME_SAMPLES,
    SAMPLE_RATE,
    FloatFrames,
    FrameStepper,
    Heard,
    SessionPrompt,
    StepOutput,
    SupportsShutdown,
)
from rtc_server.engine.voicesample import voice_sample

SLOTS = 3
FRAMES = 12
"""Length of the conversations that are compared: about one second."""
PREFILL_BUDGET_S = 0.040
MAX_LEVEL = 1.0 + 1e-3


class ConformanceError(AssertionError):
    """At least one law is broken; the message names each of them."""

    def __init__(self, violations: Sequence[str]) -> None:
        super().__init__("the stepper breaks the contract:\n" + "\n".join(f"- {text}" for text in violations))
        self.violations = tuple(violations)


class _Violation(Exception):
    pass


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _Violation(message)


@dataclass
class _Conversation:
    """What a slot said."""

    pcm: list[FloatFrames] = field(default_factory=list)
    text: list[str | None] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)


class _Rig:
    """Drives the stepper, and checks in each step what must hold in every step."""

    def __init__(self, stepper: FrameStepper, *, deterministic: bool, tolerance: float, prefill_limit_s: float) -> None:
        self.stepper = stepper
        self.deterministic = deterministic
        self.tolerance = tolerance
        self.prefill_limit_s = prefill_limit_s
        self._steps = [0] * stepper.slots

    def open(self, slot: int, seed: int = 1) -> _Conversation:
        self.stepper.open(slot, SessionPrompt(seed=seed))
        give_up_s = time.monotonic() + self.prefill_limit_s
        ready = False
        while not ready:
            ready = self.stepper.prefill(slot, PREFILL_BUDGET_S)
            _require(isinstance(ready, bool), f"prefill returned {type(ready).__name__}, not bool")
            _require(ready or time.monotonic() < give_up_s, f"prefill is not over after {self.prefill_limit_s:.0f} s")
        self._steps[slot] = 0
        return _Conversation()

    def step(self, frames: Mapping[int, FloatFrames], idle_rows: float = 0.0) -> StepOutput:
        """One step of the slots in `frames`; `idle_rows` is what stands in the rows of all others."""
        pcm = np.full((self.stepper.slots, FRAME_SAMPLES), idle_rows, np.float32)
        live = np.zeros(self.stepper.slots, np.bool_)
        for slot, frame in frames.items():
            pcm[slot] = frame
            live[slot] = True
            self._steps[slot] += 1
        given, given_live = pcm.copy(), live.copy()
        output = self.stepper.step(pcm, live)
        _require(np.array_equal(pcm, given) and np.array_equal(live, given_live), "step wrote to its input")
        self._check(output, live)
        return output

    def talk(self, conversation: _Conversation, slot: int, frame: FloatFrames, idle_rows: float = 0.0) -> None:
        self.record(conversation, slot, self.step({slot: frame}, idle_rows))

    def record(self, conversation: _Conversation, slot: int, output: StepOutput) -> None:
        conversation.pcm.append(output.pcm[slot].copy())
        conversation.text.append(output.text[slot])
        conversation.heard.extend(output.heard[slot])

    def same(self, one: _Conversation, other: _Conversation, message: str) -> None:
        """The two conversations must be alike; nothing is asked of an engine that isn't deterministic."""
        if not self.deterministic:
            return
        difference = float(np.max(np.abs(np.stack(one.pcm) - np.stack(other.pcm))))
        _require(difference <= self.tolerance, f"{message} (audio differs by {difference:.4f})")
        _require(one.text == other.text, f"{message} (text differs)")

    def _check(self, output: StepOutput, live: NDArray[np.bool_]) -> None:
        slots = self.stepper.slots
        shape = (slots, FRAME_SAMPLES)
        _require(output.pcm.shape == shape, f"pcm has shape {list(output.pcm.shape)}, not {list(shape)}")
        _require(output.pcm.dtype == np.float32, f"pcm is {output.pcm.dtype}, not float32")
        spoken = output.pcm[live]
        _require(bool(np.isfinite(spoken).all()), "pcm is not finite")
        _require(float(np.abs(spoken).max(initial=0.0)) <= MAX_LEVEL, "pcm goes beyond [-1, 1]")
        _require(len(output.text) == slots and len(output.heard) == slots, "text and heard need one entry per slot")
        _require(not output.failed, f"slots {sorted(output.failed)} failed without a cause")
        for slot in np.flatnonzero(live):
            text = output.text[slot]
            _require(text is None or isinstance(text, str), f"text is {type(text).__name__}, not str or None")
            for heard in output.heard[slot]:
                _require(
                    0 <= heard.start_frame <= heard.end_frame <= self._steps[slot],
                    f"heard frames {heard.start_frame}..{heard.end_frame} after {self._steps[slot]} steps of the slot",
                )


def _speech(seed: int, frames: int = FRAMES) -> FloatFrames:
    """Noise with the level of speech, [frames, 1920]."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.0, 0.1, (frames, FRAME_SAMPLES)).clip(-1, 1).astype(np.float32)


def _reference(rig: _Rig) -> _Conversation:
    """One conversation in slot 0, alone."""
    reference = rig.open(0)
    for frame in _speech(1):
        rig.talk(reference, 0, frame)
    rig.stepper.close(0)
    return reference


# ---- the laws --------------------------------------------------------------------------------------------------------


def _spec_fits_the_clock(rig: _Rig) -> None:
    spec = rig.stepper.spec
    _require(bool(spec.name and spec.summary and spec.voices), "spec needs a name, a summary and at least one voice")
    clock = (spec.sample_rate, spec.frame_samples, spec.frame_rate)
    _require(clock == (SAMPLE_RATE, FRAME_SAMPLES, FRAME_RATE), f"spec is {clock}, not 24000 Hz, 1920 samples, 12.5 Hz")
    _require(rig.stepper.slots == SLOTS, f"slots is {rig.stepper.slots} after it was built for {SLOTS}")


def _any_audio_gives_audio(rig: _Rig) -> None:
    """Silence, full scale, a constant: the output is finite and in range (checked in each step)."""
    rig.open(0)
    t = np.arange(FRAME_SAMPLES)
    for frame in (
        np.zeros(FRAME_SAMPLES),
        np.sign(np.sin(t / 20)),
        np.ones(FRAME_SAMPLES),
        np.full(FRAME_SAMPLES, 1e-40),
    ):
        for _ in range(3):
            rig.step({0: frame.astype(np.float32)})
    rig.stepper.close(0)


def _same_seed_same_conversation(rig: _Rig) -> None:
    rig.same(_reference(rig), _reference(rig), "close does not forget: the same prompt and input gave another answer")


def _slots_are_alike(rig: _Rig) -> None:
    reference = _reference(rig)
    conversation = rig.open(SLOTS - 1)
    for frame in _speech(1):
        rig.talk(conversation, SLOTS - 1, frame)
    rig.stepper.close(SLOTS - 1)
    rig.same(reference, conversation, "the answer depends on the slot's number")


def _idle_rows_do_not_count(rig: _Rig) -> None:
    reference = _reference(rig)
    conversation = rig.open(0)
    for frame in _speech(1):
        rig.talk(conversation, 0, frame, idle_rows=0.5)
    rig.stepper.close(0)
    rig.same(reference, conversation, "what stands in rows that are not live changes the answer")


def _neighbours_do_not_hear_each_other(rig: _Rig) -> None:
    """A neighbour joins, talks and leaves in the middle of a conversation."""
    reference = _reference(rig)
    conversation = rig.open(0)
    other = _speech(2)
    for n, frame in enumerate(_speech(1)):
        if n == 3:
            rig.open(1, seed=2)
        both = {0: frame, 1: other[n]} if 4 <= n < 9 else {0: frame}
        rig.record(conversation, 0, rig.step(both))
        if n == 9:
            rig.stepper.close(1)
    rig.stepper.close(0)
    rig.same(reference, conversation, "a neighbour changes the answer")


def _a_frozen_slot_stands_still(rig: _Rig) -> None:
    """A conversation that pauses, while its neighbour goes on, continues as if nothing had been."""
    reference = _reference(rig)
    conversation = rig.open(0)
    rig.open(1, seed=2)
    for n, frame in enumerate(_speech(1)):
        if n == 5:
            for other in _speech(2, frames=5):
                rig.step({1: other}, idle_rows=0.5)
        rig.talk(conversation, 0, frame)
    rig.stepper.close(0)
    rig.stepper.close(1)
    rig.same(reference, conversation, "a slot that was not live for some steps did not stand still")


def _a_prompt_can_be_given_up(rig: _Rig) -> None:
    """A caller who leaves during prefill leaves nothing behind."""
    reference = _reference(rig)
    rig.stepper.open(0, SessionPrompt(seed=3))
    rig.stepper.prefill(0, 0.001)
    rig.stepper.close(0)
    rig.same(reference, _reference(rig), "a prompt that was given up changes the next conversation")


def _voices_can_be_listened_to(rig: _Rig) -> None:
    """Those that say so, before a call and during one."""
    spec = rig.stepper.spec
    _require(set(spec.voice_samples) <= set(spec.voices), f"voice_samples {list(spec.voice_samples)} are no voices")
    reference = _reference(rig)
    conversation = rig.open(0)
    for frame in _speech(1):
        for voice in spec.voice_samples:
            voice_sample(rig.stepper, voice)
        rig.talk(conversation, 0, frame)
    rig.stepper.close(0)
    rig.same(reference, conversation, "listening to a voice changes the answer")


_LAWS: tuple[Callable[[_Rig], None], ...] = (
    _spec_fits_the_clock,
    _any_audio_gives_audio,
    _same_seed_same_conversation,
    _slots_are_alike,
    _idle_rows_do_not_count,
    _neighbours_do_not_hear_each_other,
    _a_frozen_slot_stands_still,
    _a_prompt_can_be_given_up,
    _voices_can_be_listened_to,
)


def _a_broken_slot_fails_alone(rig: _Rig, break_slot: Callable[[FrameStepper, int], None]) -> None:
    reference = _reference(rig)
    conversation = rig.open(0)
    rig.open(1, seed=2)
    frames = _speech(1)
    for frame in frames[:3]:
        rig.talk(conversation, 0, frame)
    break_slot(rig.stepper, 1)
    pcm = np.zeros((SLOTS, FRAME_SAMPLES), np.float32)
    pcm[0] = frames[3]
    output = rig.stepper.step(pcm, np.array([True, True, False]))
    _require(output.failed == {1}, f"slot 1 was broken, and step says that {sorted(output.failed)} failed")
    rig.record(conversation, 0, output)
    rig.stepper.close(1)
    for frame in frames[4:]:
        rig.talk(conversation, 0, frame)
    rig.stepper.close(0)
    rig.same(reference, conversation, "a broken slot changes its neighbour's answer")
    rig.open(1)
    rig.step({1: frames[0]})
    rig.stepper.close(1)


def check_stepper(
    factory: Callable[[int], FrameStepper],
    *,
    deterministic: bool = True,
    tolerance: float = 1e-3,
    prefill_limit_s: float = 60.0,
    break_slot: Callable[[FrameStepper, int], None] | None = None,
) -> tuple[str, ...]:
    """Drive a stepper of three slots through every law of the contract. Returns the names of the laws that held.

    Args:
        factory: builds a stepper for a number of slots; called once.
        deterministic: the same prompt, seed and audio give the same answer. With False (an engine that works on a
            thread beside the clock), nothing is compared; what each step returns is still checked.
        tolerance: by how much samples of equal conversations may differ.
        prefill_limit_s: a prompt must be done by then.
        break_slot: makes a live slot of this stepper break at the next step, to test that it fails alone.

    Raises: ConformanceError, which names every law that is broken. What the stepper raises counts as a violation.
    """
    rig = _Rig(factory(SLOTS), deterministic=deterministic, tolerance=tolerance, prefill_limit_s=prefill_limit_s)
    laws = [(law.__name__, law) for law in _LAWS]
    if break_slot is not None:
        laws.append(("_a_broken_slot_fails_alone", lambda rig: _a_broken_slot_fails_alone(rig, break_slot)))
    held: list[str] = []
    violations: list[str] = []
    for private_name, law in laws:
        name = private_name.strip("_").replace("_", " ")
        try:
            law(rig)
        except _Violation as violation:
            violations.append(f"{name}: {violation}")
        except Exception as error:
            violations.append(f"{name}: raised {type(error).__name__}: {error}")
        else:
            held.append(name)
            continue
        for slot in range(rig.stepper.slots):  # a law that broke off left its slots open
            _close_quietly(rig.stepper, slot)
    if isinstance(rig.stepper, SupportsShutdown):
        rig.stepper.shutdown()
    if violations:
        raise ConformanceError(violations)
    return tuple(held)


def _close_quietly(stepper: FrameStepper, slot: int) -> None:
    try:
        stepper.close(slot)
    except Exception:
        return
