"""The two tracks that carry a call's audio, for our own legs and for any stock aiortc consumer.

Conductor and pacer use the synchronous `take` and `next_packet`; `recv` awaits the same audio as `av.AudioFrame`s, so
a `MediaRecorder`, a `MediaRelay` or a stock `RTCPeerConnection` can use the very same objects.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from fractions import Fraction

from aiortc import MediaStreamTrack
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from rtc_server.media.frames import FRAME_SAMPLES, PACKET_S, PACKET_SAMPLES, SAMPLE_RATE, FloatSamples, FrameSource
from rtc_server.media.pcm import to_int16
from rtc_server.media.playout import Playout, PlayoutPacket

TAP_BLOCKS = 25
"""How many frames or packets may wait for a reader of `recv`; the newest ones stay."""

_TIME_BASE = Fraction(1, SAMPLE_RATE)


class AudioTap:
    """Copies of what went through a track, kept for readers of `recv`. Keeps nothing until somebody has read.

    Bounded: `TAP_BLOCKS`; the oldest are dropped. Positions count all samples, so a dropped block shows as a jump of
    the frames' `pts`.
    """

    def __init__(self) -> None:
        self._position = 0
        self._blocks: deque[tuple[int, FloatSamples]] = deque(maxlen=TAP_BLOCKS)
        self._arrived = asyncio.Event()
        self._read = False
        self._ended = False

    def put(self, pcm: FloatSamples) -> None:
        if self._read:
            self._blocks.append((self._position, pcm))
            self._arrived.set()
        self._position += pcm.size

    def pass_over(self, n_samples: int) -> None:
        """So many samples will never come."""
        self._position += n_samples

    async def get(self) -> AudioFrame:
        """Raises: MediaStreamError once the track has ended and nothing is left."""
        self._read = True
        while not self._blocks:
            if self._ended:
                raise MediaStreamError
            self._arrived.clear()
            await self._arrived.wait()
        return audio_frame(*self._blocks.popleft())

    def end(self) -> None:
        self._ended = True
        self._arrived.set()


class UserAudioTrack(MediaStreamTrack):
    """What a caller says: owns the leg's jitter buffer, or any other source of frames.

    `take` gives each frame once, to the engine. `recv` gives copies of the frames that were taken: 80 ms, 24 kHz, mono,
    s16.
    """

    kind = "audio"

    def __init__(self, source: FrameSource) -> None:
        super().__init__()
        self.source = source
        self._tap = AudioTap()

    def take(self, now: float) -> FloatSamples:
        """[1920] samples for the tick at `now`. Never waits: what is missing is concealed."""
        frame = self.source.take(now)
        self._tap.put(frame)
        return frame

    def skip(self, frames: int) -> None:
        """Pass over frames whose time is gone."""
        self.source.skip(frames)
        self._tap.pass_over(frames * FRAME_SAMPLES)

    async def recv(self) -> AudioFrame:
        return await self._tap.get()

    def stop(self) -> None:
        super().stop()
        self._tap.end()


class AgentAudioTrack(MediaStreamTrack):
    """What the agent says: owns the leg's playout.

    Args:
        playout: frames in, one 20 ms packet out per slot.
        paced: True where somebody calls `next_packet` once per slot (our own legs; `recv` then gives copies). False
            where `recv` is the only reader, as in a stock `RTCPeerConnection`: then it keeps the 20 ms clock itself.
        clock: monotonic seconds.
    """

    kind = "audio"

    def __init__(self, playout: Playout, paced: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.playout = playout
        self._paced = paced
        self._clock = clock
        self._tap = AudioTap()
        self._slots = 0
        self._first_slot_s: float | None = None

    def write(self, now: float, pcm: FloatSamples) -> int:
        """Queue a frame of [1920] samples. Returns the 48 kHz RTP timestamp at which it starts to play."""
        return self.playout.write(now, pcm)

    def next_packet(self, now: float) -> PlayoutPacket:
        """The 20 ms of the slot at `now`: silence where the agent has nothing."""
        packet = self.playout.next_packet(now)
        self._tap.put(packet.pcm)
        return packet

    def flush(self, now: float) -> tuple[int, int]:
        """Drop what is not sent yet, after a short fade. Returns (samples sent so far, samples dropped)."""
        return self.playout.flush(now)

    async def recv(self) -> AudioFrame:
        """20 ms, 24 kHz, mono, s16."""
        if self._paced:
            return await self._tap.get()
        if self.readyState != "live":
            raise MediaStreamError
        slot, slot_s = await self._next_slot()
        return audio_frame(slot * PACKET_SAMPLES, self.playout.next_packet(slot_s).pcm)

    def stop(self) -> None:
        super().stop()
        self._tap.end()

    async def _next_slot(self) -> tuple[int, float]:
        """Wait for the next slot on an absolute clock. After a stall the slots that went by are skipped."""
        now = self._clock()
        if self._first_slot_s is None:
            self._first_slot_s = now
        self._slots = max(self._slots, int((now - self._first_slot_s) / PACKET_S))
        slot_s = self._first_slot_s + self._slots * PACKET_S
        await asyncio.sleep(max(0.0, slot_s - now))
        self._slots += 1
        return self._slots - 1, slot_s


def audio_frame(position: int, pcm: FloatSamples) -> AudioFrame:
    """24 kHz mono s16; `position` is the first sample's, counted from the beginning of the track."""
    frame = AudioFrame.from_ndarray(to_int16(pcm).reshape(1, -1), format="s16", layout="mono")
    frame.sample_rate = SAMPLE_RATE
    frame.time_base = _TIME_BASE
    frame.pts = position
    return frame
