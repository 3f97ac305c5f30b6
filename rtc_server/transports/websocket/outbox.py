"""What waits to be sent over one WebSocket: frames of the agent's voice and messages, in order. Sans-IO.

Both are bounded. A socket takes more than the network has room for, so a reader who stops is noticed late. Who answers
pings is therefore held to them, and gets audio only so far ahead of the last answer.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS
from rtc_server.session.leg import FloatFrame
from rtc_server.session.worth import Worth

AUDIO_SAMPLES = SAMPLE_RATE
"""1 s. What comes beyond it pushes out the oldest: a reader who is behind hears the newest."""
WAITING_MESSAGES = 64
WINDOW_SAMPLES = 2 * SAMPLE_RATE
"""How far ahead of the last answered ping audio is sent."""
STALL_S = 10.0
"""A peer that takes nothing for so long, although something waits for it, has stopped reading."""
FADE_OUT_SAMPLES = 20 * SAMPLES_PER_MS
FADE_IN_SAMPLES = 5 * SAMPLES_PER_MS

_FADE_OUT = np.linspace(1, 0, FADE_OUT_SAMPLES, dtype=np.float32)
_FADE_IN = np.linspace(0, 1, FADE_IN_SAMPLES, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Audio:
    """A frame of the agent's voice."""

    pcm: FloatFrame
    written_s: float


@dataclass(frozen=True, slots=True)
class Message:
    data: str | bytes
    worth: Worth


class Outbox:
    """The sender takes one item after the other with `next`, and says `sent` when the socket has taken it.

    Bounds: `AUDIO_SAMPLES` of audio, the oldest goes first; `WAITING_MESSAGES` messages, the cheapest go first and of
    equal worth the oldest. `now` is monotonic seconds.
    """

    def __init__(self) -> None:
        self.played_samples = 0
        """Agent audio handed to the sender."""
        self.queued_samples = 0
        self.dropped_samples = 0
        """Agent audio never sent: over the bound, or flushed."""
        self.dropped_messages = 0
        self._waiting: deque[Audio | Message] = deque()
        self._in_hand = False
        self._held = False
        self._finished = False
        self._acknowledged_samples: int | None = None
        """None until the peer has answered a ping."""
        self._moved_s = 0.0
        """When something was last taken within the window or acknowledged, or the first thing began to wait."""
        self._fades_in = False
        self._worst_wait_s = 0.0

    # ---- in ----------------------------------------------------------------------------------------------------------

    def write(self, now: float, pcm: FloatFrame) -> None:
        """Queue a frame: [1920] mono float32 at 24 kHz; not copied, and not to be changed any more."""
        self._begin_to_wait(now)
        if self._fades_in:
            pcm, self._fades_in = _faded_in(pcm), False
        self._waiting.append(Audio(pcm, now))
        self.queued_samples += pcm.size
        while self.queued_samples > AUDIO_SAMPLES:
            self._drop_oldest_audio()

    def put(self, now: float, data: str | bytes, worth: Worth) -> None:
        """Queue a message."""
        self._begin_to_wait(now)
        self._waiting.append(Message(data, worth))
        messages = [(item.worth, index) for index, item in enumerate(self._waiting) if isinstance(item, Message)]
        if len(messages) > WAITING_MESSAGES:
            del self._waiting[min(messages)[1]]
            self.dropped_messages += 1

    @property
    def audio_room(self) -> bool:
        """A frame more would push out none."""
        return self.queued_samples + FRAME_SAMPLES <= AUDIO_SAMPLES

    @property
    def message_room(self) -> int:
        """How many messages more would push out none."""
        return max(0, WAITING_MESSAGES - sum(isinstance(item, Message) for item in self._waiting))

    # ---- out ---------------------------------------------------------------------------------------------------------

    def next(self, now: float) -> FloatFrame | str | bytes | None:
        """The next item, if one may be sent now. A frame that was dropped before it leaves no click behind."""
        for index, item in enumerate(self._waiting):
            if isinstance(item, Audio):
                if self._held:
                    continue
                if not self._window_open:
                    return None
                self.queued_samples -= item.pcm.size
                self.played_samples += item.pcm.size
                self._worst_wait_s = max(self._worst_wait_s, now - item.written_s)
            del self._waiting[index]
            self._in_hand = True
            return item.pcm if isinstance(item, Audio) else item.data
        return None

    def sent(self, now: float) -> None:
        """The socket has taken the item. Beyond the window that is no proof that anybody reads."""
        self._in_hand = False
        if self._window_open:
            self._moved_s = now

    def acknowledge(self, now: float, samples: int) -> None:
        """The peer has read so much of the audio. From now on it is held to that."""
        if self._acknowledged_samples is None or samples > self._acknowledged_samples:
            self._acknowledged_samples = samples
            self._moved_s = now

    @property
    def stalls_at_s(self) -> float:
        """When the peer will have stopped reading, if nothing moves until then."""
        return self._moved_s + STALL_S if self._waits else math.inf

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._in_hand

    def take_worst_wait_s(self) -> float:
        """The longest that a frame waited here since the last reading."""
        worst_s, self._worst_wait_s = self._worst_wait_s, 0.0
        return worst_s

    # ---- what becomes of the audio -----------------------------------------------------------------------------------

    def flush(self) -> int:
        """Drop the audio that waits, but for a fade of 20 ms at the head of one frame. Returns the samples dropped."""
        audio = [item for item in self._waiting if isinstance(item, Audio)]
        if not audio:
            return 0
        dropped = self.queued_samples - FADE_OUT_SAMPLES
        faded = Audio(_faded_out(audio[0].pcm), audio[0].written_s)
        kept = (faded if item is audio[0] else item for item in self._waiting)
        self._waiting = deque(item for item in kept if item is faded or isinstance(item, Message))
        self.queued_samples = faded.pcm.size
        self.dropped_samples += dropped
        self._fades_in = True
        return dropped

    @property
    def held(self) -> bool:
        return self._held

    def hold(self) -> None:
        """The peer wants no audio for now. Messages pass it by."""
        self._held = True

    def release(self, now: float) -> None:
        """The peer wants audio again: what waits, the newest second of it, and what follows."""
        if self._held:
            self._held = False
            self._moved_s = now

    def finish(self) -> None:
        """The end is near: the rest leaves as fast as the socket takes it, but no audio that the peer did not want."""
        if self._held:
            self._waiting = deque(item for item in self._waiting if isinstance(item, Message))
            self.queued_samples = 0
        self._held = False
        self._finished = True

    # ---- inside ------------------------------------------------------------------------------------------------------

    @property
    def _window_open(self) -> bool:
        if self._finished or self._acknowledged_samples is None:
            return True
        return self.played_samples - self._acknowledged_samples < WINDOW_SAMPLES

    @property
    def _waits(self) -> bool:
        return self._in_hand or any(isinstance(item, Message) or not self._held for item in self._waiting)

    def _begin_to_wait(self, now: float) -> None:
        if not self._waits:
            self._moved_s = now

    def _drop_oldest_audio(self) -> None:
        oldest, following = [(index, item) for index, item in enumerate(self._waiting) if isinstance(item, Audio)][:2]
        self._waiting[following[0]] = Audio(_faded_in(following[1].pcm), following[1].written_s)
        del self._waiting[oldest[0]]
        self.queued_samples -= oldest[1].pcm.size
        self.dropped_samples += oldest[1].pcm.size


def _faded_in(pcm: FloatFrame) -> FloatFrame:
    faded = pcm.copy()
    faded[:FADE_IN_SAMPLES] *= _FADE_IN
    return faded


def _faded_out(pcm: FloatFrame) -> FloatFrame:
    faded = np.zeros_like(pcm)
    faded[:FADE_OUT_SAMPLES] = pcm[:FADE_OUT_SAMPLES] * _FADE_OUT
    return faded
