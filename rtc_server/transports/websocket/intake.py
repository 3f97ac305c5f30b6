"""The caller's audio, from the socket to the session. A bounded part of it waits here.

Who talks in real time wants no delay: the newest second is enough. Who sends a recording has to wait whenever we do not
read, and behind its audio wait its pings: a library that wants them answered within 20 s would give the call up. So two
minutes are read ahead, and only what is longer makes its sender wait.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable

import numpy as np

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.pcmfifo import PcmFifo
from rtc_server.session.leg import FloatFrame

READ_AHEAD_SAMPLES = 120 * SAMPLE_RATE
"""11.5 MB, at `Pace.INPUT`."""
_SAMPLE_BYTES = 4


class Pace(enum.Enum):
    """What the clock of a conversation is."""

    INPUT = "input"
    """The caller's audio: the engine is stepped when a frame of it is there, and nothing is lost. Who sends faster than
    that has to wait; for who reads more slowly, the engine waits."""
    REALTIME = "realtime"
    """Time: what comes, or is read, at another speed is dropped, the oldest first."""


class Intake:
    """Queue of one caller's audio. Event loop's thread only.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, pace: Pace, clock: Callable[[], float]) -> None:
        self.last_audio_s = clock()
        """When audio last came, or was heard; or since when it could have come."""
        self.waited_s = 0.0
        """When audio last had to wait for room: nothing else was read from the socket then."""
        self._pace = pace
        self._clock = clock
        self._fifo = PcmFifo(keeps_all=pace is Pace.INPUT)
        self._ahead = bytearray()
        """float32 samples that come behind those in the queue."""
        self._room = asyncio.Event()
        """Set when audio was taken, and at the end."""
        self._is_finished = self._is_closed = False
        self._is_taken = False
        self._refused_samples = 0
        """Dropped before they came here."""
        self._early_samples = 0
        """Dropped before the conversation began: nobody has missed them."""

    # ---- the socket's side -------------------------------------------------------------------------------------------

    async def feed(self, pcm: FloatSamples) -> None:
        """[n] mono float32 at 24 kHz. At `Pace.INPUT`, returns when all of it has found room."""
        while pcm.size and not self._is_closed:
            self.last_audio_s = self._clock()
            if self._pace is Pace.REALTIME:
                self._fifo.put(self.last_audio_s, pcm)
                return
            if room := READ_AHEAD_SAMPLES - len(self._ahead) // _SAMPLE_BYTES:
                self._ahead += pcm[:room].astype(np.float32, copy=False).tobytes()
                pcm = pcm[room:]
                self._refill()
            else:
                await self._wait_for_room()

    def count_dropped(self, n_samples: int) -> None:
        """So much of the audio was dropped before it came here."""
        self._refused_samples += n_samples

    def finish(self) -> None:
        """No more comes: the last piece of it is padded to a frame."""
        self._is_finished = True
        self._refill()
        self.close()

    def close(self) -> None:
        """Whatever comes from now on is ignored."""
        self._is_closed = True
        self._room.set()

    def _refill(self) -> None:
        if self._ahead:
            n_bytes = min(len(self._ahead), self._fifo.room_samples * _SAMPLE_BYTES)
            self._fifo.put(self._clock(), np.frombuffer(bytes(self._ahead[:n_bytes]), np.float32))
            del self._ahead[:n_bytes]
        if self._is_finished and not self._ahead:
            self._fifo.end()

    async def _wait_for_room(self) -> None:
        try:
            self._room.clear()
            await self._room.wait()
        finally:
            self.waited_s = self._clock()

    # ---- the session's side ------------------------------------------------------------------------------------------

    @property
    def frame_ready(self) -> bool:
        """A whole frame waits, or the last piece."""
        return self._fifo.frame_ready

    @property
    def ended(self) -> bool:
        """`finish` was called, and everything has been taken."""
        return self._fifo.ended

    def take(self, now: float) -> FloatFrame:
        """The next frame. The first one is of the present: what came before the conversation began is not answered with
        a delay that would stay for ever."""
        if not self._is_taken:
            self._is_taken = True
            if self._pace is Pace.REALTIME:
                self._fifo.skip(max(0, self._fifo.queued_samples // FRAME_SAMPLES - 1))
                self._early_samples = self._dropped_samples
        if self._fifo.frame_ready:
            self.last_audio_s = now
        frame = self._fifo.take(now)
        self._refill()
        self._room.set()
        return frame

    def skip(self, frames: int) -> int:
        """Pass over frames whose time is gone; returns how many."""
        if self._pace is Pace.INPUT:
            return 0
        self._fifo.skip(frames)
        return frames

    @property
    def queued_ms(self) -> float:
        return (self._fifo.queued_samples + len(self._ahead) // _SAMPLE_BYTES) / SAMPLES_PER_MS

    @property
    def dropped_ms(self) -> int:
        """Audio of the conversation that was dropped because it came faster than time passes."""
        return (self._dropped_samples - self._early_samples) // SAMPLES_PER_MS if self._is_taken else 0

    @property
    def _dropped_samples(self) -> int:
        return self._refused_samples + self._fifo.counters.dropped_samples

    @property
    def missing_ms(self) -> int:
        """Silence that was heard in place of audio that did not come."""
        return self._fifo.counters.missing_samples // SAMPLES_PER_MS
