"""An ear, a recogniser and a voice without models, and a rig that plays a conversation in virtual time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade.conversation import Conversation
from rtc_server.engine.cascade.ear import BLOCK_SAMPLES, BLOCKS_PER_FRAME, HeardFrame
from rtc_server.engine.cascade.worker import Job, Recognise, Recognised, Result, Speak, Voiced
from rtc_server.engine.stepper import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE, Heard, SessionPrompt

NOON = datetime(2026, 3, 4, 12, 5, tzinfo=UTC)
SPEECH_LEVEL = 0.1
S_PER_CHARACTER = 0.06

Frame = NDArray[np.float32]


class LevelEar:
    """Everything that is louder than -34 dBFS is voice. Blocks are those of 24 kHz, in order."""

    def __init__(self) -> None:
        self.resets = 0

    def hear(self, pcm: Frame) -> HeardFrame:
        blocks = pcm.reshape(BLOCKS_PER_FRAME, -1)
        rms = np.sqrt(np.mean(blocks**2, axis=1))
        return HeardFrame(
            np.ascontiguousarray(blocks[:, :BLOCK_SAMPLES]).reshape(-1),
            tuple(0.9 if level > 0.02 else 0.1 for level in rms),
            tuple(rms.tolist()),
        )

    def reset(self) -> None:
        self.resets += 1


def fake_speech(sentence: str) -> Frame:
    """A sound of 60 ms per character, at a level that is the same for every sentence."""
    return np.full(int(len(sentence) * S_PER_CHARACTER * SAMPLE_RATE), 0.5, np.float32)


class FakeVoice:
    def __init__(self) -> None:
        self.spoken: list[str] = []

    def speak(self, sentence: str) -> Frame:
        self.spoken.append(sentence)
        return fake_speech(sentence)


@dataclass
class FakeRecogniser:
    """Hears the texts in `texts`, one a call, the last one for ever."""

    texts: deque[str] = field(default_factory=lambda: deque([""]))
    calls: int = 0

    def transcribe(self, pcm: Frame) -> str:
        self.calls += 1
        return self.texts.popleft() if len(self.texts) > 1 else self.texts[0]


def speech(voiced_blocks: int = BLOCKS_PER_FRAME) -> Frame:
    """A frame whose first blocks are voice, and whose rest is silence."""
    frame = np.zeros(FRAME_SAMPLES, np.float32)
    frame[: voiced_blocks * FRAME_SAMPLES // BLOCKS_PER_FRAME] = SPEECH_LEVEL
    return frame


class Rig:
    """One conversation with models that answer `latency` frames later. Every method returns what the agent said in it.

    The recogniser hears whatever `user_says` was called with last.
    """

    def __init__(
        self, persona: str | None = None, seed: int | None = None, *, latency: int = 0, understands: bool = True
    ) -> None:
        self.latency = latency
        self.jobs: list[Job] = []
        self.heard: list[Heard] = []
        self.levels: list[float] = []
        self.sounds: list[Frame] = []
        self.pieces: list[tuple[int, str]] = []
        self.lost_results = False
        self._results: deque[tuple[int, Result]] = deque()
        self._current_text = ""
        self._frame = 0
        self.conversation = Conversation(
            SessionPrompt(persona=persona, seed=seed), LevelEar(), self._submit, self.now, understands=understands
        )

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self._frame * FRAME_S)

    @property
    def frame(self) -> int:
        return self._frame

    @property
    def text(self) -> str:
        return "".join(piece for _, piece in self.pieces)

    @property
    def final(self) -> list[str]:
        return [heard.text for heard in self.heard if heard.final]

    def user_says(self, text: str, frames: int = 12) -> str:
        self._current_text = text
        return self._play([speech()] * frames)

    def silence(self, seconds: float) -> str:
        return self._play([speech(0)] * round(seconds / FRAME_S))

    def listen_until_quiet(self, limit_s: float = 120.0) -> str:
        """Silence until the agent has said nothing for 1.2 s."""
        before, since = len(self.pieces), self._frame
        while self._frame < since + 15 or max(self.levels[-15:]) > 0:
            assert (self._frame - since) * FRAME_S < limit_s
            self._play([speech(0)])
        return "".join(piece for _, piece in self.pieces[before:])

    def play(self, frame: Frame) -> str:
        return self._play([frame])

    def _submit(self, job: Job) -> None:
        self.jobs.append(job)
        if self.lost_results:
            return
        due = self._frame + self.latency
        match job:
            case Speak():
                self._results.append((due, Voiced(job.key, fake_speech(job.sentence))))
            case Recognise():
                self._results.append((due, Recognised(job.key, self._current_text)))

    def _play(self, frames: list[Frame]) -> str:
        before = len(self.pieces)
        for frame in frames:
            while self._results and self._results[0][0] <= self._frame:
                self.conversation.deliver(self._results.popleft()[1])
            out = np.full(FRAME_SAMPLES, np.nan, np.float32)
            text, heard = self.conversation.step(frame, out)
            if text is not None:
                self.pieces.append((self._frame, text))
            self.heard.extend(heard)
            self.sounds.append(out)
            self.levels.append(float(np.abs(out).max()))
            self._frame += 1
        return "".join(piece for _, piece in self.pieces[before:])
