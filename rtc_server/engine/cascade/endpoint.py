"""Where an utterance begins, pauses and ends.

Counted in 16 ms blocks, so that an end is found at most one frame late::

                voiced for 80 ms            silent for 240 ms         silent for 480 ms
    QUIET ------------------------> SPEECH --------------------> PAUSE ----------------> QUIET
                                       ^                            |                      Ended, or Dismissed
                                       +---- voiced for 48 ms ------+                      if too short
                                              Resumed

`Paused` already carries the utterance: it can be recognised on the chance that it is complete, and the speculation is
dropped at `Resumed`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade.ear import BLOCKS_PER_FRAME, HeardFrame
from rtc_server.engine.cascade.recogniser import MAX_UTTERANCE_S
from rtc_server.engine.stepper import FRAME_S

VOICE_ON = 0.5
VOICE_ON_WHILE_AGENT_SPEAKS = 0.65
"""Higher, since an agent on a loudspeaker comes back into the microphone."""
_VOICE_OFF_BELOW_ON = 0.12
_ONSET_BLOCKS = 5
_RESUME_BLOCKS = 3
_PAUSE_BLOCKS = 15
_END_BLOCKS = 30
_MIN_VOICED_BLOCKS = 11
"""176 ms, of which the detector's own hangover is about 100: less was a click or a cough."""
_PREROLL_FRAMES = 4
_MAX_FRAMES = int(MAX_UTTERANCE_S / FRAME_S)


@dataclass(frozen=True, slots=True)
class Started:
    frame: int
    """The frame in which the voice set in."""


@dataclass(frozen=True, slots=True)
class Paused:
    """Silent for 240 ms: perhaps complete."""

    pcm: NDArray[np.float32]
    """The utterance so far, 16 kHz, from 320 ms before the voice was noticed."""
    frame: int
    """The last frame with voice."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The pause was only a pause."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Silent for 480 ms, or 20 s long. `pcm` and `frame` as in `Paused`."""

    pcm: NDArray[np.float32]
    frame: int


@dataclass(frozen=True, slots=True)
class Dismissed:
    """It ended, but was too short to be words."""


EndpointEvent = Started | Paused | Resumed | Ended | Dismissed


class Endpointer:
    """Feed it every frame of one conversation, in order. Keeps at most 20 s of audio."""

    def __init__(self) -> None:
        self.speaking = False
        """From `Started` to `Ended`, pauses included."""
        self._frame = -1
        self._audio: deque[NDArray[np.float32]] = deque(maxlen=_PREROLL_FRAMES)
        self._run = 0
        self._silent = 0
        self._voiced = 0
        self._last_voiced_frame = 0
        self._paused = False

    def feed(self, heard: HeardFrame, *, agent_speaks: bool) -> list[EndpointEvent]:
        self._frame += 1
        self._audio.append(heard.pcm)
        on = VOICE_ON_WHILE_AGENT_SPEAKS if agent_speaks else VOICE_ON
        events: list[EndpointEvent] = []
        for block, probability in enumerate(heard.voice):
            if self.speaking:
                self._track(probability > on - _VOICE_OFF_BELOW_ON, events)
            elif self._sets_in(probability > on):
                events.append(self._start(block))
        if self.speaking and len(self._audio) >= _MAX_FRAMES:
            self._end(events)
        return events

    def _sets_in(self, voiced: bool) -> bool:
        self._run = self._run + 1 if voiced else 0
        return self._run >= _ONSET_BLOCKS

    def _start(self, block: int) -> Started:
        self.speaking = True
        self._paused = False
        self._silent = 0
        self._voiced = self._run
        self._last_voiced_frame = self._frame
        self._audio = deque(self._audio, maxlen=_MAX_FRAMES)
        first_block = self._frame * BLOCKS_PER_FRAME + block - (self._run - 1)
        return Started(first_block // BLOCKS_PER_FRAME)

    def _track(self, voiced: bool, events: list[EndpointEvent]) -> None:
        if voiced:
            self._run += 1
            self._voiced += 1
            if self._run >= _RESUME_BLOCKS or not self._paused:
                self._silent = 0
                self._last_voiced_frame = self._frame
                if self._paused:
                    self._paused = False
                    events.append(Resumed())
            return
        self._run = 0
        self._silent += 1
        if self._silent == _PAUSE_BLOCKS and self._voiced >= _MIN_VOICED_BLOCKS:
            self._paused = True
            events.append(Paused(self._utterance(), self._last_voiced_frame))
        elif self._silent >= _END_BLOCKS:
            self._end(events)

    def _end(self, events: list[EndpointEvent]) -> None:
        if self._voiced >= _MIN_VOICED_BLOCKS:
            events.append(Ended(self._utterance(), self._last_voiced_frame))
        else:
            events.append(Dismissed())
        self.speaking = False
        self._run = 0
        self._audio = deque(maxlen=_PREROLL_FRAMES)

    def _utterance(self) -> NDArray[np.float32]:
        return np.concatenate(self._audio)
