"""An echo engine that keeps what it hears, frame by frame, with the moment of each step.

For benchmarks, as ``--engine rtc_server.bench.listener:Listener``; the folder for its files comes out of the
environment, and what callers say is in them.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, FloatFrames, SessionPrompt, StepOutput
from rtc_server.errors import ConfigError
from rtc_server.media.pcm import to_float, to_int16

FOLDER_VARIABLE = "RTC_BENCH_RECORDINGS"
ENGINE = "rtc_server.bench.listener:Listener"

_FRAME = np.dtype([("at_s", "<f8"), ("pcm", "<i2", (FRAME_SAMPLES,))])


class Listener(EchoStepper):
    """One file a conversation. The caller's seed names it; without one, slot and how many came before.

    Raises: ConfigError when the environment names no folder.
    """

    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        folder = os.environ.get(FOLDER_VARIABLE, "")
        if not Path(folder).is_dir() or not folder:
            raise ConfigError(f"{FOLDER_VARIABLE}={folder!r} is no folder", hint="name one that exists")
        self._folder = Path(folder)
        self._files: dict[int, BinaryIO] = {}
        self._opened = 0

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        name = f"slot{slot}-{self._opened}" if prompt.seed is None else str(prompt.seed)
        self._opened += 1
        self._files[slot] = recording_path(self._folder, name).open("wb")

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        frame = np.zeros(1, _FRAME)
        frame["at_s"] = time.monotonic()
        for slot in np.flatnonzero(live):
            frame["pcm"][0] = to_int16(pcm[slot])
            self._files[int(slot)].write(frame.tobytes())
        return super().step(pcm, live)

    def close(self, slot: int) -> None:
        super().close(slot)
        file = self._files.pop(slot, None)
        if file is not None:
            file.close()


def recording_path(folder: Path, name: str | int) -> Path:
    return folder / f"{name}.frames"


@dataclass(frozen=True, slots=True)
class Recording:
    """What the engine was given."""

    at_s: NDArray[np.float64]
    """[frames] when each frame was stepped, `time.monotonic()` of this machine."""
    pcm: NDArray[np.int16]
    """[frames, 1920] at 24 kHz."""

    @classmethod
    def none(cls) -> Recording:
        return cls(np.empty(0), np.empty((0, FRAME_SAMPLES), np.int16))

    @classmethod
    def read(cls, path: Path) -> Recording:
        """A frame that was cut off at the end is left out. Raises: OSError."""
        data = path.read_bytes()
        frames = np.frombuffer(data, _FRAME, count=len(data) // _FRAME.itemsize)
        return cls(frames["at_s"].copy(), frames["pcm"].copy())

    def sound(self) -> NDArray[np.float32]:
        """[frames * 1920] in [-1, 1]."""
        return to_float(self.pcm.reshape(-1))
