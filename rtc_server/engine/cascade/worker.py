"""The one thread on which recogniser and voice run, for all slots."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade.recogniser import Recogniser
from rtc_server.engine.cascade.voice import Voice
from rtc_server.log import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Recognise:
    """What was said here? `pcm` is mono 16 kHz."""

    key: int
    pcm: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Speak:
    """How does this sentence sound?"""

    key: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Recognised:
    key: int
    text: str
    """"" where there were no words, or the recogniser failed."""


@dataclass(frozen=True, slots=True)
class Voiced:
    key: int
    pcm: NDArray[np.float32]
    """Mono 24 kHz; empty where the voice failed."""


Job = Recognise | Speak
Result = Recognised | Voiced


class Worker:
    """Jobs in order of arrival, results by slot.

    Bound: one waiting job of each kind per slot; a newer one takes the place of an older one, which is dropped and has
    no result. So at most two jobs per slot wait, and at most one is at work. Results stay until they are taken or
    their slot is forgotten; each belongs to the generation in which its job was submitted.
    """

    def __init__(self, recogniser: Recogniser | None, voice: Voice) -> None:
        self._recogniser = recogniser
        self._voice = voice
        self._changed = threading.Condition()
        self._jobs: OrderedDict[tuple[int, type[Job]], tuple[int, Job]] = OrderedDict()
        self._results: list[tuple[int, int, Result]] = []
        self._busy = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="cascade-worker", daemon=True)
        self._thread.start()

    def submit(self, slot: int, generation: int, job: Job) -> None:
        with self._changed:
            self._jobs[slot, type(job)] = (generation, job)
            self._changed.notify_all()

    def take_results(self) -> list[tuple[int, int, Result]]:
        """All results since the last call, as (slot, generation, result), oldest first. Never waits for a model."""
        with self._changed:
            results, self._results = self._results, []
        return results

    def forget(self, slot: int) -> None:
        """Drop the waiting jobs and the results of a slot. A job at work goes on; its result has an old generation."""
        with self._changed:
            for kind in (Recognise, Speak):
                self._jobs.pop((slot, kind), None)
            self._results = [entry for entry in self._results if entry[0] != slot]

    def wait_for_result(self, timeout_s: float) -> bool:
        """Wait until a result can be taken. False when none came in time."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._results), timeout_s)

    def drain(self, timeout_s: float = 30.0) -> bool:
        """Wait until nothing is left to do. For tests and offline runs, which have no clock to keep."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs and not self._busy, timeout_s)

    def stop(self) -> None:
        """End the thread after the job at work. May be called twice."""
        with self._changed:
            self._stopped = True
            self._jobs.clear()
            self._changed.notify_all()

    def join(self, timeout_s: float = 5.0) -> None:
        """After `stop`: wait until the thread is gone. A native model must not be freed by a thread that dies with the
        interpreter, which would abort the process."""
        self._thread.join(timeout_s)

    @property
    def waiting(self) -> int:
        with self._changed:
            return len(self._jobs)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or bool(self._jobs))
                if self._stopped:
                    return
                (slot, _), (generation, job) = self._jobs.popitem(last=False)
                self._busy = True
            result = self._work(job)
            with self._changed:
                self._busy = False
                self._results.append((slot, generation, result))
                self._changed.notify_all()

    def _work(self, job: Job) -> Result:
        started = time.monotonic()
        try:
            if isinstance(job, Speak):
                return Voiced(job.key, self._voice.speak(job.sentence))
            return Recognised(job.key, self._recogniser.transcribe(job.pcm) if self._recogniser else "")
        except Exception as error:  # a model that fails on one sentence must not silence every slot
            log.warning("cascade job failed", kind=type(job).__name__, error=type(error).__name__)
            return Voiced(job.key, np.zeros(0, np.float32)) if isinstance(job, Speak) else Recognised(job.key, "")
        finally:
            log.debug("cascade job done", kind=type(job).__name__, seconds=round(time.monotonic() - started, 3))
