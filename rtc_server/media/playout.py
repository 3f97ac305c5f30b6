"""The agent's voice on its way out: 80 ms frames in whenever the engine has them, one 20 ms packet out per slot.

RTP time is the clock: slot k has the timestamp k * 960, whatever happens. When there is nothing to play, silence is
sent, and the queue is deeper by that much from then on, since the engine still makes all its frames. That surplus is
*trimmed*: taken out again where nobody hears it, so that the delay returns to its minimum.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rtc_server.media.frames import PACKET_S, PACKET_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.samplestore import SampleStore
from rtc_server.media.surplus import Surplus, SurplusConfig, Watch
from rtc_server.media.timescale import FADE_SAMPLES, Place, cut_joint, fade_away

TIMESTAMP_UNITS_PER_SAMPLE = 2
"""RTP clock of Opus, 48 kHz, against 24 kHz (RFC 7587 section 4.1)."""
TIMESTAMP_UNITS_PER_PACKET = PACKET_SAMPLES * TIMESTAMP_UNITS_PER_SAMPLE

_FADE_IN = np.linspace(0, 1, FADE_SAMPLES, dtype=np.float32)
_SILENCE = np.zeros(PACKET_SAMPLES, np.float32)
_SILENCE.flags.writeable = False


@dataclass(frozen=True, slots=True)
class PlayoutConfig:
    bound_ms: int = 400
    margin_ms: int = 5
    """Left between a frame's arrival and its first sample's slot, when a surplus is trimmed."""
    surplus: SurplusConfig = SurplusConfig(watches=(Watch(0.5),), patience_s=0.5, voiced_above_ms=20)
    """What one packet of silence leaves waits for a pause of the voice: until then it spares the voice another gap, and
    the delay stands still."""
    flush_fade_ms: int = 20


class PlayoutPacket(NamedTuple):
    timestamp: int
    """48 kHz units since the first slot; not wrapped."""
    pcm: FloatSamples
    """[480] samples; not to be written to."""
    silence: bool
    """Nothing of the agent's voice is in it."""


@dataclass(slots=True)
class PlayoutCounters:
    packets: int = 0
    underruns: int = 0
    """Times that the queue ran empty, once the agent had begun."""
    silence_samples: int = 0
    """Sent in those."""
    trimmed_samples: int = 0
    """Cut out to bring the delay back."""
    dropped_samples: int = 0
    """Never sent: over the bound, in missed slots, or flushed."""
    missed_slots: int = 0


class _State(enum.Enum):
    IDLE = enum.auto()
    """Nothing was ever written, or all was flushed."""
    PLAYING = enum.auto()
    DRY = enum.auto()
    """The queue ran empty; the next frame is late."""


class Playout:
    """Queue and clock of one call's outgoing audio. Sans-IO, one thread; `now` is `time.monotonic()` seconds.

    Bound: `bound_ms` of audio. What comes beyond it pushes out the oldest, with one crossfade.
    """

    def __init__(self, config: PlayoutConfig | None = None) -> None:
        self.counters = PlayoutCounters()
        self.played_samples = 0
        """Agent audio sent so far."""
        self._config = config or PlayoutConfig()
        self._bound = self._config.bound_ms * SAMPLES_PER_MS
        self._queue = SampleStore(2 * self._bound)
        self._surplus = Surplus(self._config.surplus)
        self._next_slot = 0
        self._last_slot_at: float | None = None
        """When the last packet was due. Slots are counted from there: a pacer moves its grid."""
        self._tail = _SILENCE[:FADE_SAMPLES]
        """The last samples sent: an underrun fades out of their mirror image."""
        self._state = _State.IDLE
        self._fade_in_at: int | None = None
        """Position in the queue where sound follows on silence."""

    @property
    def queued_samples(self) -> int:
        return len(self._queue)

    def write(self, now: float, pcm: FloatSamples) -> int:
        """Queue one frame: mono float32 in [-1, 1], normally [1920]; copied.

        Returns the timestamp, on the packets' scale, at which its first sample will be sent.
        """
        queue = self._queue
        self._watch(now)
        self._surplus.hear(pcm)
        if self._state is _State.DRY:
            self._fade_in_at = queue.end
        self._state = _State.PLAYING
        queue.append(pcm[-self._bound :])
        start = queue.end - pcm.size
        excess = len(queue) - self._bound
        if excess > 0:
            self.counters.dropped_samples += excess
            self._cut(Place(0, excess))
        start = self._trim(now, start)
        slot = max(self._next_slot, self._due_slot(now - PACKET_S / 2))  # one that waits for this frame is served late
        before = max(0, start - queue.first)
        return slot * TIMESTAMP_UNITS_PER_PACKET + before * TIMESTAMP_UNITS_PER_SAMPLE

    def next_packet(self, now: float) -> PlayoutPacket:
        """The packet for the slot at `now`; to be called once in each 20 ms.

        Slots missed by a stalled caller are gone: the timestamp jumps over them, and so does the audio.
        """
        self._skip_missed(self._due_slot(now))
        timestamp = self._next_slot * TIMESTAMP_UNITS_PER_PACKET
        self._next_slot += 1
        self._last_slot_at = now
        self.counters.packets += 1
        queue = self._queue
        if not len(queue) and self._state is not _State.PLAYING:
            if self._state is _State.DRY:
                self.counters.silence_samples += PACKET_SAMPLES
            return PlayoutPacket(timestamp, _SILENCE, True)
        queued = queue.read(queue.first, PACKET_SAMPLES)
        ready = queued.size
        if ready == PACKET_SAMPLES:
            pcm = queued.copy()
        else:
            pcm = np.zeros(PACKET_SAMPLES, np.float32)
            pcm[:ready] = queued
        self._fade_in(pcm, ready)
        if ready < PACKET_SAMPLES and self._state is _State.PLAYING:
            self._run_dry(pcm, ready)
        self._tail = pcm[-FADE_SAMPLES:]
        self.played_samples += ready
        queue.forget_before(queue.first + ready)
        return PlayoutPacket(timestamp, pcm, False)

    def flush(self, now: float, fade_ms: int | None = None) -> tuple[int, int]:
        """Drop what is not sent yet, except a fade-out of `fade_ms`.

        Returns (samples sent, the fade counted among them; samples dropped by this call).
        """
        queue = self._queue
        fade = min(len(queue), (self._config.flush_fade_ms if fade_ms is None else fade_ms) * SAMPLES_PER_MS)
        dropped = len(queue) - fade
        kept = queue.read(queue.first, fade) * np.linspace(1, 0, fade, dtype=np.float32)
        queue.restart(queue.end)
        queue.append(kept)
        self._fade_in_at = queue.end
        self._state = _State.IDLE
        self.counters.dropped_samples += dropped
        self._surplus.watch_anew()
        return self.played_samples + fade, dropped

    # Slots

    def _due_slot(self, now: float) -> int:
        """The slot nearest to `now`, counted from the last one: a pacer moves its grid, a little from slot to slot, but
        by any amount in the end. 0 before the first packet."""
        if self._last_slot_at is None:
            return 0
        return self._next_slot - 1 + int((now - self._last_slot_at) / PACKET_S + 0.5)

    def _skip_missed(self, due: int) -> None:
        missed = due - self._next_slot
        if missed <= 0:
            return
        queue = self._queue
        dropped = min(len(queue), missed * PACKET_SAMPLES)
        queue.forget_before(queue.first + dropped)
        if dropped:
            self._fade_in_at = queue.first
        self.counters.dropped_samples += dropped
        self.counters.missed_slots += missed
        self._next_slot = due

    def _fade_in(self, pcm: FloatSamples, ready: int) -> None:
        """Sound that follows on silence, or on a slot that was never sent, begins with a fade."""
        if self._fade_in_at is None:
            return
        begin = self._fade_in_at - self._queue.first
        if begin >= ready:
            return
        count = min(ready - max(begin, 0), FADE_SAMPLES)
        if begin >= 0:
            pcm[begin : begin + count] *= _FADE_IN[:count]
        self._fade_in_at = None

    def _run_dry(self, pcm: FloatSamples, ready: int) -> None:
        """Nothing more to play: the mirror image of the last 5 ms fades out, so that nothing clicks."""
        room = min(FADE_SAMPLES, PACKET_SAMPLES - ready)
        pcm[ready : ready + room] = fade_away(np.concatenate((self._tail, pcm[:ready])))[:room]
        self._state = _State.DRY
        self.counters.underruns += 1
        self.counters.silence_samples += PACKET_SAMPLES - ready
        self._surplus.watch_anew()

    # Surplus

    def _watch(self, now: float) -> None:
        """Note how much less a frame that comes now could find in front of it and still be in time."""
        if self._last_slot_at is None or self._state is not _State.PLAYING:
            return
        queued = len(self._queue)
        to_slot_s = self._last_slot_at + PACKET_S - now
        to_slot = min(max(to_slot_s, 0.0), PACKET_S) * SAMPLE_RATE
        self._surplus.watch(now, min(queued, queued + to_slot - self._config.margin_ms * SAMPLES_PER_MS))

    def _trim(self, now: float, start: int) -> int:
        """Cut a part of the surplus. Returns `start`, the newest frame's position, as the cuts have moved it."""
        for place in self._surplus.cuts(now, self._queue):
            if self._queue.first + place.position > start:
                start += place.length
            self.counters.trimmed_samples += place.length
            self._cut(place)
        return start

    def _cut(self, place: Place) -> None:
        queue = self._queue
        joint = cut_joint(queue.read(queue.first, len(queue)), place)
        position = queue.first + place.position
        if self._fade_in_at is not None and self._fade_in_at < position:
            self._fade_in_at += place.length
        queue.cut(position, place.length, joint)
        self._surplus.lower(place.length)
