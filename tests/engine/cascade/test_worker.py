from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from rtc_server.engine.cascade.worker import Recognise, Recognised, Speak, Voiced, Worker
from tests.engine.cascade.fakes import FakeRecogniser, FakeVoice

PCM = np.zeros(16, np.float32)
WAIT_S = 10.0


class GatedVoice(FakeVoice):
    """Speaks only when the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.entered = threading.Event()

    def speak(self, sentence: str) -> np.ndarray:
        self.entered.set()
        assert self.gate.wait(WAIT_S)
        return super().speak(sentence)


class BrokenVoice:
    def speak(self, sentence: str) -> np.ndarray:
        raise RuntimeError("no sound today")


@pytest.fixture
def voice() -> GatedVoice:
    return GatedVoice()


@pytest.fixture
def worker(voice: GatedVoice) -> Iterator[Worker]:
    worker = Worker(FakeRecogniser(), voice)
    yield worker
    voice.gate.set()
    worker.stop()


def test_results_come_back_with_slot_and_generation_in_order(worker: Worker, voice: GatedVoice) -> None:
    voice.gate.set()
    worker.submit(0, 7, Speak(1, "One."))
    worker.submit(1, 9, Recognise(2, PCM))
    assert worker.drain(WAIT_S)
    results = worker.take_results()
    assert [(slot, generation, type(result), result.key) for slot, generation, result in results] == [
        (0, 7, Voiced, 1),
        (1, 9, Recognised, 2),
    ]
    assert worker.take_results() == []


def test_a_newer_job_of_the_same_slot_and_kind_replaces_the_waiting_one(worker: Worker, voice: GatedVoice) -> None:
    worker.submit(0, 1, Speak(0, "At work."))
    assert voice.entered.wait(WAIT_S)
    for key in range(1, 100):
        worker.submit(0, 1, Speak(key, f"{key}"))
        worker.submit(0, 1, Recognise(1000 + key, PCM))
        worker.submit(1, 1, Speak(2000 + key, f"{key}"))
    assert worker.waiting == 3
    voice.gate.set()
    assert worker.drain(WAIT_S)
    assert [result.key for _, _, result in worker.take_results()] == [0, 99, 1099, 2099]


def test_submitting_never_waits_for_a_model(worker: Worker, voice: GatedVoice) -> None:
    worker.submit(0, 1, Speak(0, "At work."))
    assert voice.entered.wait(WAIT_S)
    worker.submit(0, 1, Speak(1, "Next."))
    assert worker.take_results() == []
    assert not worker.drain(0.01)


def test_a_forgotten_slot_has_neither_jobs_nor_results(worker: Worker, voice: GatedVoice) -> None:
    voice.gate.set()
    worker.submit(0, 1, Speak(0, "Done."))
    worker.submit(1, 1, Speak(1, "Also done."))
    assert worker.drain(WAIT_S)
    voice.gate.clear()
    voice.entered.clear()
    worker.submit(1, 1, Speak(2, "At work."))
    assert voice.entered.wait(WAIT_S)
    worker.submit(0, 1, Speak(3, "Waiting."))
    worker.forget(0)
    voice.gate.set()
    assert worker.drain(WAIT_S)
    assert [(slot, result.key) for slot, _, result in worker.take_results()] == [(1, 1), (1, 2)]


def test_a_model_that_fails_gives_an_empty_result_and_the_thread_goes_on() -> None:
    worker = Worker(FakeRecogniser(), BrokenVoice())
    worker.submit(0, 1, Speak(0, "One."))
    worker.submit(0, 1, Recognise(1, PCM))
    assert worker.drain(WAIT_S)
    spoken, recognised = (result for _, _, result in worker.take_results())
    assert isinstance(spoken, Voiced)
    assert len(spoken.pcm) == 0
    assert isinstance(recognised, Recognised)
    worker.stop()


def test_stop_ends_the_thread_and_may_be_called_twice(worker: Worker, voice: GatedVoice) -> None:
    voice.gate.set()
    worker.stop()
    worker.stop()
    worker._thread.join(WAIT_S)
    assert not worker._thread.is_alive()
