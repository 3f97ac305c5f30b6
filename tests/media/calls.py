"""Calls in virtual time: packets through a network into a jitter buffer, a frame out of it every 80 ms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rtc_server.media.frames import FRAME_S, FloatSamples
from rtc_server.media.jitterbuffer import JitterBuffer
from tests.media.network import Network

SETTLED = 12
"""Frames after which a call has found its delay."""


@dataclass
class Call:
    """What came out of a jitter buffer, tick by tick."""

    buffer: JitterBuffer
    frames: list[FloatSamples] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)
    targets_ms: list[float] = field(default_factory=list)

    @property
    def pcm(self) -> FloatSamples:
        return np.concatenate(self.frames)

    def tick(self, now: float) -> None:
        frame = self.buffer.take(now)
        assert frame.shape == (1920,)
        assert frame.dtype == np.float32
        assert np.isfinite(frame).all()
        self.frames.append(frame)
        self.times.append(now)
        self.delays_ms.append(self.buffer.delay_ms)
        self.targets_ms.append(self.buffer.target_ms)

    def recovery_s(self, begin_s: float, end_s: float) -> float:
        """How long after `end_s` the delay was more than 20 ms above what it was before `begin_s`; to the millisecond,
        since delays are whole packets apart."""
        times, delays = np.array(self.times), np.array(self.delays_ms)
        usual = float(np.median(delays[SETTLED:][times[SETTLED:] < begin_s]))
        above = times[(times >= end_s) & (delays > usual + 21)]
        return float(above[-1]) - end_s if above.size else 0.0


def call(
    payloads: list[bytes],
    network: Network,
    *,
    packet_ms: int = 20,
    phase_s: float = 0.015,
    seed: int = 0,
    buffer: JitterBuffer | None = None,
    copies: int = 0,
    first_sequence_number: int = 65_500,
    first_timestamp: int = 2**32 - 48_000,
) -> Call:
    """Send `payloads` through `network`, each with `copies` of the ones before it, and take a frame every 80 ms until
    the sender has stopped."""
    running = Call(buffer or JitterBuffer())
    arrivals = network.arrivals(len(payloads), packet_ms / 1000, seed)

    def put(arrival_s: float, number: int, redundant: bool) -> None:
        running.buffer.put(
            arrival_s,
            (first_sequence_number + number) & 0xFFFF,
            (first_timestamp + number * packet_ms * 48) & 0xFFFFFFFF,
            payloads[number],
            7,
            redundant=redundant,
        )

    end_s = network.sender_s(len(payloads) * packet_ms / 1000)
    at = tick = 0
    while (now := phase_s + tick * FRAME_S) <= end_s:
        while at < len(arrivals) and arrivals[at][0] <= now:
            arrival_s, number = arrivals[at]
            put(arrival_s, number, redundant=False)
            for copy in range(number - 1, max(-1, number - 1 - copies), -1):
                put(arrival_s, copy, redundant=True)
            at += 1
        running.tick(now)
        tick += 1
    return running
