"""A stretch of what the engine was given, laid beside what was said. Sans-IO."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtc_server.bench.alignment import Alignment, align
from rtc_server.bench.losscalls import HeardCall
from rtc_server.bench.quality import log_spectral_distance_db
from rtc_server.engine.stepper import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE
from rtc_server.media.pcm import to_float

MOST_DELAY_S = 0.6
"""Of the buffer and the network together; a buffer that adds more is broken."""

Delay = tuple[float, float]
"""(when a frame was given to the engine, what the buffer had added to its last sample, in ms)"""


@dataclass(frozen=True, slots=True)
class HeardSpeech:
    """One stretch of a call; a frame that the engine was never given is silence."""

    clean: NDArray[np.float32]
    """[n] sample by sample what was captured when..."""
    heard: NDArray[np.float32]
    """...the engine was given this [n], if nothing took any time; whole frames."""
    alignment: Alignment
    at_s: NDArray[np.float64]
    """[n / 1920] when each frame was due."""
    begins: int
    """Sample at which the stretch that was asked for begins in `clean`."""

    @classmethod
    def of(cls, call: HeardCall, at: int, samples: int) -> HeardSpeech:
        """`samples` of the clean stream from `at` on, with a second before it."""
        first_s, heard = on_ticks(call.recording.at_s, call.recording.pcm)
        # With no delay at all, this sample of the clean stream would begin the first frame.
        origin = round((first_s - call.captured_s) * SAMPLE_RATE) - FRAME_SAMPLES
        first = max(0, (at - SAMPLE_RATE - origin) // FRAME_SAMPLES, -(origin // FRAME_SAMPLES))
        last = -(-(at + samples + round(MOST_DELAY_S * SAMPLE_RATE) - origin) // FRAME_SAMPLES)
        last = max(first, min(len(heard), last))
        begin, end = origin + first * FRAME_SAMPLES, origin + last * FRAME_SAMPLES
        clean = np.zeros(end - begin, np.float32)
        there = call.clean[begin:end]
        clean[: there.size] = there
        sound = heard[first:last].reshape(-1)
        alignment = align(clean, sound, 0, round(MOST_DELAY_S * SAMPLE_RATE))
        at_s = np.arange(first, last, dtype=np.float64) * FRAME_S + first_s
        return cls(clean, sound, alignment, at_s, at - begin)

    def distance_db(self) -> float:
        return log_spectral_distance_db(self.alignment.reference(self.clean), self.heard)

    def delays(self, network_delay_ms: float) -> list[Delay]:
        """Of the frames whose delay is known."""
        ends = (np.arange(self.at_s.size) + 1) * FRAME_SAMPLES - 1
        return [
            (float(at_s), float(self.alignment.lags[end]) / SAMPLE_RATE * 1000 - network_delay_ms)
            for at_s, end in zip(self.at_s, ends, strict=True)
            if self.alignment.known(int(end))
        ]

    def part(self, begin: int, end: int) -> NDArray[np.float32]:
        """What was heard of the samples [begin, end) of the stretch."""
        places = np.arange(self.heard.size) - self.alignment.lags - self.begins
        inside = np.flatnonzero((places >= begin) & (places < end))
        return self.heard[inside[0] : inside[-1] + 1] if inside.size else self.heard[:0]

    def clean_part(self, begin: int, end: int) -> NDArray[np.float32]:
        return self.clean[self.begins + begin : self.begins + end]


def tick_phase_s(at_s: NDArray[np.float64]) -> float:
    """Where in the 80 ms between two ticks the steps lie, 0 to 0.08: they scatter around it, so it is the mean on a
    circle."""
    angle = float(np.angle(np.exp(2j * np.pi * at_s / FRAME_S).sum()))
    return angle / (2 * np.pi) * FRAME_S % FRAME_S


def on_ticks(at_s: NDArray[np.float64], pcm: NDArray[np.int16]) -> tuple[float, NDArray[np.float32]]:
    """Frames laid on ticks 80 ms apart: the time of the first, and all of them in [-1, 1], [ticks, 1920].

    A tick without a frame is silent. Frames that came late in a burst belong to the ticks before it.
    """
    if not at_s.size:
        return 0.0, np.empty((0, FRAME_SAMPLES), np.float32)
    order = np.arange(at_s.size)
    first_s = at_s[0] + tick_phase_s(at_s - at_s[0])
    nearest = np.rint((at_s - first_s) / FRAME_S).astype(np.int64)
    ticks = np.minimum.accumulate((nearest - order)[::-1])[::-1] + order
    sound = np.zeros((int(ticks[-1] - ticks[0]) + 1, FRAME_SAMPLES), np.float32)
    sound[ticks - ticks[0]] = to_float(pcm)
    return float(first_s + ticks[0] * FRAME_S), sound
