"""The stepper with fake models: threads are real, their order does not matter."""

from __future__ import annotations

import gc
from collections import deque
from datetime import datetime

import numpy as np
import pytest

from rtc_server.engine.cascade.conversation import Conversation
from rtc_server.engine.cascade.models import Models
from rtc_server.engine.cascade.stepper import SUMMARY, SUMMARY_WITHOUT_WORDS, CascadeStepper
from rtc_server.engine.conformance import check_stepper
from rtc_server.engine.stepper import FRAME_SAMPLES, FrameStepper, Heard, SessionPrompt
from tests.engine.cascade.fakes import NOON, FakeRecogniser, FakeVoice, LevelEar, fake_speech, speech


def noon() -> datetime:
    return NOON


def build(slots: int, recogniser: FakeRecogniser | None = None) -> CascadeStepper:
    models = Models(FakeVoice(), recogniser or FakeRecogniser(), LevelEar)
    return CascadeStepper(slots, models=models, clock=noon)


class Call:
    """Everything that one slot said and heard, in lockstep with the worker."""

    def __init__(self, stepper: CascadeStepper, slot: int, prompt: SessionPrompt | None = None) -> None:
        self.stepper = stepper
        self.slot = slot
        self.text = ""
        self.heard: list[Heard] = []
        stepper.open(slot, prompt or SessionPrompt())
        while not stepper.prefill(slot, 1.0):
            pass

    def play(self, frame: np.ndarray, count: int = 1) -> None:
        for _ in range(count):
            step(self.stepper, {self: frame})


def step(stepper: CascadeStepper, frames: dict[Call, np.ndarray]) -> np.ndarray:
    assert stepper.drain()
    pcm = np.zeros((stepper.slots, FRAME_SAMPLES), np.float32)
    live = np.zeros(stepper.slots, np.bool_)
    for call, frame in frames.items():
        pcm[call.slot] = frame
        live[call.slot] = True
    output = stepper.step(pcm, live)
    assert not output.failed
    for call in frames:
        call.text += output.text[call.slot] or ""
        call.heard.extend(output.heard[call.slot])
    return output.pcm


def test_the_spec_says_what_it_is() -> None:
    stepper = build(2)
    assert (stepper.spec.name, stepper.spec.summary, stepper.slots) == ("cascade", SUMMARY, 2)
    assert stepper.spec.voices == ("default",)
    assert stepper.spec.hears_interruptions


def test_without_a_recogniser_the_spec_says_so_and_it_runs() -> None:
    stepper = CascadeStepper(1, models=Models(FakeVoice(), None, LevelEar), clock=noon)
    assert stepper.spec.summary == SUMMARY_WITHOUT_WORDS
    call = Call(stepper, 0)
    call.play(speech(0), 60)
    assert call.text.startswith("Hi, I'm the demo voice. My speech recogniser is missing")


def test_it_keeps_the_engine_contract() -> None:
    def break_slot(stepper: FrameStepper, slot: int) -> None:
        assert isinstance(stepper, CascadeStepper)
        stepper._conversations[slot]._mouth = None  # type: ignore[union-attr, assignment]

    held = check_stepper(build, deterministic=True, break_slot=break_slot)
    assert "a broken slot fails alone" in held


def test_the_first_sound_comes_within_half_a_second_of_live() -> None:
    stepper = build(1)
    call = Call(stepper, 0)
    levels = [float(np.abs(step(stepper, {call: speech(0)})).max()) for _ in range(6)]
    assert max(levels) > 0


def test_slots_talk_at_once_and_do_not_hear_each_other() -> None:
    recogniser = FakeRecogniser(deque(["What time is it?"]))
    stepper = build(3, recogniser)
    calls = [
        Call(stepper, slot, SessionPrompt(persona=f"Your name is {name}.")) for slot, name in ((0, "Ada"), (2, "Bo"))
    ]
    for n in range(150):
        step(stepper, {calls[0]: speech(5 if 90 <= n < 100 else 0), calls[1]: speech(0)})
    assert calls[0].text.startswith("Hi, I'm Ada.")
    assert calls[0].text.endswith("It is 12:05 PM.")
    assert [heard.text for heard in calls[0].heard if heard.final] == ["What time is it?"]
    assert calls[1].text.startswith("Hi, I'm Bo.")
    assert calls[1].text.endswith("interrupt me.")
    assert calls[1].heard == []


def test_a_slot_that_was_given_on_hears_nothing_of_its_former_user() -> None:
    stepper = build(1, FakeRecogniser(deque(["My secret is swordfish."])))
    former = Call(stepper, 0)
    former.play(speech(0), 90)
    former.play(speech(), 10)
    pcm = np.zeros((1, FRAME_SAMPLES), np.float32)
    for _ in range(4):
        stepper.step(pcm, np.ones(1, np.bool_))  # the pause: recognition begins
    stepper.open(0, SessionPrompt(seed=1))
    assert stepper.drain()
    while not stepper.prefill(0, 1.0):
        pass
    newcomer = Call.__new__(Call)
    newcomer.stepper, newcomer.slot, newcomer.text, newcomer.heard = stepper, 0, "", []
    newcomer.play(speech(0), 100)
    assert newcomer.heard == []
    assert newcomer.text == "Hi, I'm the demo voice. Ask me the time, tell me your name, or interrupt me."


def test_a_late_result_of_an_earlier_generation_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = build(1)
    stepper.open(0, SessionPrompt())
    generation = stepper._generations[0]
    assert stepper.drain()
    stale = stepper._worker.take_results()
    stepper.close(0)
    stepper.open(0, SessionPrompt())
    assert stepper._generations[0] > generation
    delivered: list[object] = []
    monkeypatch.setattr(Conversation, "deliver", lambda self, result: delivered.append(result))
    monkeypatch.setattr(stepper._worker, "take_results", lambda: stale)
    stepper.step(np.zeros((1, FRAME_SAMPLES), np.float32), np.ones(1, np.bool_))
    assert stale
    assert delivered == []


def test_the_queue_is_bounded_whatever_the_users_do() -> None:
    stepper = build(4)
    for round_ in range(30):
        for slot in range(4):
            stepper.open(slot, SessionPrompt(seed=round_, persona=f"Your name is Name{'abcdefgh'[round_ % 8]}."))
        for n in range(5):
            frame = np.tile(speech(5 if n % 2 else 0), (4, 1))
            stepper.step(frame, np.ones(4, np.bool_))
        assert stepper._worker.waiting <= 8


def test_an_engine_that_is_thrown_away_takes_its_thread_along() -> None:
    stepper = build(1)
    thread = stepper._worker._thread
    del stepper
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def test_its_voice_can_be_listened_to_as_it_greets_and_is_made_only_once() -> None:
    voice = FakeVoice()
    stepper = CascadeStepper(2, models=Models(voice, FakeRecogniser(), LevelEar), clock=noon)
    spoken = list(voice.spoken)
    for _ in range(2):
        np.testing.assert_array_equal(stepper.voice_sample("default"), fake_speech("Hi, I'm the demo voice."))
    assert stepper.spec.voice_samples == stepper.spec.voices == ("default",)
    assert stepper.drain() and voice.spoken == spoken
    assert stepper.spec.sampling is None
