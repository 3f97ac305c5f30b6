"""A network in virtual time, and calls through it: when each packet arrives, and what a jitter buffer makes of it."""

from __future__ import annotations

import functools
import json
import wave
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rtc_server.media.frames import FRAME_S, SAMPLE_RATE, FloatSamples
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.opus import OpusDecoder, OpusEncoder

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True)
class Network:
    loss: float = 0.0
    delay_ms: float = 20.0
    jitter_ms: float = 0.0
    """95 % of the packets are at most so much slower than the fastest; order is kept."""
    reordered: float = 0.0
    """Share of packets held back by 30 ms."""
    duplicated: float = 0.0
    lost: tuple[int, ...] = ()
    standstill: tuple[float, float] | None = None
    """(from, seconds)."""
    drift_ppm: float = 0.0
    """The sender's clock against ours."""

    def arrivals(self, count: int, packet_s: float, seed: int) -> list[tuple[float, int]]:
        """Sorted (arrival in s, packet); a packet leaves when its last sample was spoken."""
        rng = np.random.default_rng(seed)
        sent = (np.arange(count) + 1) * packet_s * (1 - self.drift_ppm * 1e-6)
        at = sent + self.delay_ms / 1000
        if self.jitter_ms:
            at = np.maximum.accumulate(at + rng.exponential(self.jitter_ms / 3000, count) + np.arange(count) * 1e-9)
        at = at + np.where(rng.random(count) < self.reordered, 0.03, 0.0)
        if self.standstill:
            start, end = self.standstill[0], sum(self.standstill)
            stuck = (at >= start) & (at < end)
            at[stuck] = end + np.arange(stuck.sum()) * 1e-4
        kept = rng.random(count) >= self.loss
        kept[list(self.lost)] = False
        twice = rng.random(count) < self.duplicated
        arrivals = [(float(at[k]), k) for k in range(count) if kept[k]]
        arrivals += [(float(at[k]) + 0.003, k) for k in range(count) if kept[k] and twice[k]]
        return sorted(arrivals)


@dataclass
class Call:
    """What came out of a jitter buffer, tick by tick."""

    buffer: JitterBuffer
    frames: list[FloatSamples] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)

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


def call(
    payloads: list[bytes],
    network: Network,
    *,
    packet_ms: int = 20,
    phase_s: float = 0.015,
    seed: int = 0,
    buffer: JitterBuffer | None = None,
    first_sequence_number: int = 65_500,
    first_timestamp: int = 2**32 - 48_000,
) -> Call:
    """Send `payloads` through `network` and take a frame every 80 ms until the sender has stopped."""
    running = Call(buffer or JitterBuffer())
    arrivals = network.arrivals(len(payloads), packet_ms / 1000, seed)
    units = packet_ms * 48
    end = len(payloads) * packet_ms / 1000 * (1 - network.drift_ppm * 1e-6)
    at = tick = 0
    while (now := phase_s + tick * FRAME_S) <= end:
        while at < len(arrivals) and arrivals[at][0] <= now:
            arrival, k = arrivals[at]
            sequence_number, timestamp = (
                (first_sequence_number + k) & 0xFFFF,
                (first_timestamp + k * units) & 0xFFFFFFFF,
            )
            running.buffer.put(arrival, sequence_number, timestamp, payloads[k], 7)
            at += 1
        running.tick(now)
        tick += 1
    return running


@functools.lru_cache
def speech(name: str = "01_single_turn") -> FloatSamples:
    with wave.open(str(DATA / "speech" / f"{name}.wav")) as file:
        assert file.getframerate() == SAMPLE_RATE
        assert file.getnchannels() == 1
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768


def speech_spans(name: str) -> list[tuple[float, float]]:
    labels = json.loads((DATA / "speech" / "labels.json").read_text())
    return [(turn["start"], turn["end"]) for turn in labels[f"{name}.wav"] if turn["who"] == "user"]


@functools.lru_cache
def long_speech(seconds: float) -> FloatSamples:
    return np.resize(speech(), int(seconds * SAMPLE_RATE))


def encoded(pcm: FloatSamples, packet_ms: int = 20, **settings: int | bool) -> list[bytes]:
    size = packet_ms * SAMPLE_RATE // 1000
    encoder = OpusEncoder(**{"expected_loss_pct": 10, **settings})  # the speech codec, as browsers send
    return [encoder.encode(pcm[at : at + size]) for at in range(0, pcm.size - size + 1, size)]


def decoded(payloads: list[bytes]) -> FloatSamples:
    decoder = OpusDecoder()
    return np.concatenate([decoder.decode(payload) for payload in payloads])
