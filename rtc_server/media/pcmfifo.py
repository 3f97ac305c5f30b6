"""A queue of PCM chunks with the contract of a jitter buffer: one 80 ms frame per tick, whatever came.

For sockets, where nothing is lost and nothing is out of order, but everything may be late, or too much.

Who talks to us in real time may send in batches, after standstills, and by a clock that is not ours. Each standstill
leaves the queue deeper by the silence that was given out in it, and a fast clock makes it deeper all the time; what
stays there is *trimmed*, as in `playout`, so that the delay returns to the least that the network asks for. Who sends a
recording wants all of it heard: then nothing is dropped or trimmed, and the sender has to wait for room.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.samplestore import SampleStore
from rtc_server.media.surplus import Surplus, SurplusConfig, Watch
from rtc_server.media.timescale import FADE_SAMPLES, cut_joint, fade_away

_FADE_IN = np.linspace(0, 1, FADE_SAMPLES, dtype=np.float32)

_MARGIN_MS = 10
"""Kept for an arrival that is later than all of the last 10 s: as much as the jitter buffer keeps."""
_BACKLOG_MARGIN_MS = 180
"""Kept when there was less time to see how much is needed: two 80 ms chunks that come late, and their jitter."""
_SURPLUS = SurplusConfig(
    # 10 s: a standstill that comes more seldom is not worth a lasting delay, and a clock that is off by 200 ppm moves
    # by 2 ms meanwhile. A backlog does not last as long: 2 s see two of the batches that a tab in the background sends,
    # one a second, and so do not take for surplus what the next one will need.
    watches=(Watch(10.0, _MARGIN_MS), Watch(2.0, _BACKLOG_MARGIN_MS)),
    # Nothing is urgent here. A drifting clock leaves a few samples a second: they can wait for a pause, until there are
    # enough of them for the longest pitch period.
    patience_s=2.0,
    voiced_above_ms=15,
)


@dataclass(slots=True)
class PcmFifoCounters:
    chunks: int = 0
    frames: int = 0
    dropped_samples: int = 0
    """The oldest, because more than the bound was waiting."""
    skipped_samples: int = 0
    """Passed over with the ticks that they were for."""
    trims: int = 0
    trimmed_samples: int = 0
    """Cut out to bring the delay back."""
    missing_samples: int = 0
    """Silence given out because nothing was there, or to fill up the last frame."""


class PcmFifo:
    """A `FrameSource` for 24 kHz mono PCM. Sans-IO, one thread. The sound itself is the clock: `now` has no meaning.

    Bound: `max_ms` of sound beyond the frame that the next `take` gives. What comes beyond it pushes out the oldest; a
    chunk that is longer by itself leaves its newest `max_ms`. With `keeps_all` nothing is ever dropped or trimmed: the
    caller waits for `room_samples`.

    A frame that is not complete is filled up with silence after a fade of 5 ms, and what comes later is heard later.
    After a gap, less than a frame waits as long as it grows, so that the sound does not begin with another hole.
    """

    def __init__(self, max_ms: int = 1000, keeps_all: bool = False) -> None:
        self.counters = PcmFifoCounters()
        self.keeps_all = keeps_all
        self._most = max_ms * SAMPLES_PER_MS
        self._store = SampleStore(self._most + FRAME_SAMPLES)
        self._surplus = Surplus(_SURPLUS)
        self._ticks = 0
        self._input_ended = False
        self._tail = np.zeros(FADE_SAMPLES, np.float32)
        """The last samples given out: what breaks off fades out of their mirror image."""
        self._broken = False
        """What comes next does not follow on `_tail`."""
        self._dry = True
        """The last frame had to be filled up."""
        self._held_samples = 0
        """What the last `take` left waiting because it was too little to begin with."""

    def put(self, now: float, chunk: FloatSamples) -> None:
        """Queue a chunk of any size: float32 in [-1, 1]. After `end` there is no room for any.

        Raises:
            ValueError: with `keeps_all`, the chunk is larger than `room_samples`.
        """
        del now
        if self.keeps_all and chunk.size > self.room_samples:
            raise ValueError(f"cannot queue {chunk.size} samples: there is room for {self.room_samples}")
        counters = self.counters
        counters.chunks += 1
        if self._input_ended:
            counters.dropped_samples += chunk.size
            return
        samples = chunk.reshape(-1)
        if samples.size > self._store.capacity:
            self._drop(samples.size - self._most + len(self._store))
            self._store.restart(self._store.end)
            samples = samples[-self._most :]
        self._drop(self._store.append(samples))

    def end(self) -> None:
        """No more will be put: the last frame is filled up with silence. May be called twice."""
        self._input_ended = True

    @property
    def ended(self) -> bool:
        """`end` was called, and everything was taken."""
        return self._input_ended and not len(self._store)

    @property
    def frame_ready(self) -> bool:
        """A whole frame waits, or what is left after `end`."""
        return len(self._store) >= FRAME_SAMPLES or (self._input_ended and len(self._store) > 0)

    @property
    def room_samples(self) -> int:
        """How much `put` takes without dropping anything."""
        return 0 if self._input_ended else self._store.capacity - len(self._store)

    @property
    def queued_samples(self) -> int:
        return len(self._store)

    def take(self, now: float) -> FloatSamples:
        """The next frame: [1920] samples, a new array."""
        del now
        self.counters.frames += 1
        self._ticks += 1
        if not self.keeps_all:
            self._trim()
        store = self._store
        frame = np.zeros(FRAME_SAMPLES, np.float32)
        ready = 0 if self._holds_back() else min(len(store), FRAME_SAMPLES)
        frame[:ready] = store.read(store.first, ready)
        store.forget_before(store.first + ready)
        if ready == FRAME_SAMPLES:
            self._surplus.hear(frame)
        self.counters.missing_samples += FRAME_SAMPLES - ready
        if not self._input_ended:
            self._smooth(frame, ready)
        return frame

    def skip(self, frames: int) -> None:
        """Pass over what is waiting of the next frames; with `keeps_all`, nothing."""
        if self.keeps_all or frames <= 0:
            return
        self._ticks += frames
        gone = min(len(self._store), frames * FRAME_SAMPLES)
        self._store.forget_before(self._store.first + gone)
        self.counters.skipped_samples += gone
        self._broken = self._broken or gone > 0

    def _drop(self, n_samples: int) -> None:
        """Note that so many of the oldest are gone."""
        if n_samples:
            self.counters.dropped_samples += n_samples
            self._surplus.lower(n_samples)
            self._broken = True

    def _trim(self) -> None:
        """Cut out a part of what this tick would leave, and each one before has left."""
        store, now = self._store, self._ticks * FRAME_S
        self._surplus.watch(now, max(0, len(store) - FRAME_SAMPLES))
        for place in self._surplus.cuts(now, store):
            joint = cut_joint(store.read(store.first, len(store)), place)
            store.cut(store.first + place.position, place.length, joint)
            self._surplus.lower(place.length)
            self.counters.trims += 1
            self.counters.trimmed_samples += place.length

    def _holds_back(self) -> bool:
        """Whether what waits is too little to begin with. Once it does not grow any more, it is all there is."""
        queued = len(self._store)
        holds = self._dry and queued < FRAME_SAMPLES and queued != self._held_samples and not self._input_ended
        self._held_samples = queued if holds else 0
        return holds

    def _smooth(self, frame: FloatSamples, ready: int) -> None:
        """Fade in and out where the sound does not go on: behind a drop, before and behind a hole."""
        if self._broken or (not ready and not self._dry):
            fade = min(ready, FADE_SAMPLES)
            frame[:fade] *= _FADE_IN[:fade]
            frame[:FADE_SAMPLES] += fade_away(self._tail)
            self._broken = False
        self._dry = ready < FRAME_SAMPLES
        if self._dry:
            room = min(FADE_SAMPLES, FRAME_SAMPLES - ready)
            if ready:
                frame[ready : ready + room] += fade_away(np.concatenate((self._tail, frame[:ready])))[:room]
            self._broken = True
        self._tail = frame[-FADE_SAMPLES:].copy()
