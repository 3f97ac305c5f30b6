"""From packet lists to figures. Sans-IO: numpy on what the load client recorded, no clock and no codec of its own.

Definitions:

mouth to ear
    From the capture of a burst's first sample to the earliest time at which that sample of the echo could be played:
    the arrival of its packet plus its place in the packet. An ideal client without jitter buffer or sound card.
    Contains the 20 ms of packetisation and what the codecs take at both ends: the look-ahead of Opus, about 13 ms in
    all, or for G.711 four resamplers of 4 ms, two of which are the load client's. A burst is *missed* when its
    echo did not come within 6 s, or came so damaged (a hole in its middle) that the matched filter does not know it.
lateness
    Arrival of a packet behind the stream's own RTP timeline, which is laid through the earliest packet of the call.
received gap
    How far the time between two arrivals is from 20 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtc_server.bench.signals import BURST_SAMPLES, PACKET_S, SAMPLE_RATE, Samples, bursts

OPUS_CLOCK_HZ = 48_000
SEARCH_S = 6.0
"""An echo later than this counts as missed."""
SHORT_SEARCH_S = 1.0
MIN_CORRELATION = 0.6
"""Normalised; unrelated sound and other bursts stay below 0.45, an echo through two Opus codecs lies above 0.8."""
RECOVERED_WITHIN_MS = 10.0
AFTER_DROP_S = 2.0

Array = NDArray[np.float64]
Decode = Callable[[bytes], Samples]


class ReceivedPacket(NamedTuple):
    sequence: int
    """16 bit, as on the wire."""
    timestamp: int
    """32 bit, on the codec's clock, as on the wire."""
    arrival_s: float
    payload: bytes


def unwrap(values: Sequence[int], bits: int) -> NDArray[np.int64]:
    """Serial numbers of `bits` bits as a continuous line that starts at 0 (RFC 1982 arithmetic)."""
    raw = np.asarray(values, np.int64)
    half, full = 1 << (bits - 1), 1 << bits
    steps = (np.diff(raw) + half) % full - half
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(steps)]) if raw.size else raw


def lateness_ms(packets: Sequence[ReceivedPacket], clock_hz: int = OPUS_CLOCK_HZ) -> Array:
    """Per packet, in order of arrival; the earliest one is 0. `clock_hz` is that of the timestamps."""
    if not packets:
        return np.empty(0)
    arrival_s = np.array([packet.arrival_s for packet in packets])
    offset_s = arrival_s - unwrap([packet.timestamp for packet in packets], 32) / clock_hz
    return np.asarray((offset_s - offset_s.min()) * 1e3)


def received_gaps_ms(packets: Sequence[ReceivedPacket]) -> Array:
    """``|gap - 20 ms|`` between arrivals that follow each other."""
    arrival_s = np.array([packet.arrival_s for packet in packets])
    return np.asarray(np.abs(np.diff(arrival_s) - PACKET_S) * 1e3)


def lost_packets(packets: Sequence[ReceivedPacket]) -> int:
    """Sequence numbers missing between the first and the last that came."""
    if not packets:
        return 0
    numbers = unwrap([packet.sequence for packet in packets], 16)
    return int(numbers.max() - numbers.min()) + 1 - int(np.unique(numbers).size)


@dataclass(frozen=True, slots=True)
class Echo:
    """Everything a call heard, as one sound, with the arrival of each part."""

    pcm: Array
    """[n] at 24 kHz: payloads decoded in sequence and laid end to end."""
    starts: NDArray[np.int64]
    """First sample of each packet in `pcm`, ascending."""
    arrivals_s: Array
    """When that packet was there, and every one before it."""

    @classmethod
    def from_packets(cls, packets: Sequence[ReceivedPacket], decode: Decode) -> Echo:
        """`decode` is called once per distinct packet, in sequence; what it returns is 24 kHz mono."""
        numbers = unwrap([packet.sequence for packet in packets], 16)
        _, order = np.unique(numbers, return_index=True)
        sounds = [decode(packets[index].payload) for index in order]
        lengths = np.array([sound.size for sound in sounds], np.int64)
        return cls(
            pcm=np.concatenate(sounds).astype(np.float64) if sounds else np.empty(0),
            starts=np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)[:-1]]) if sounds else lengths,
            arrivals_s=np.maximum.accumulate([packets[index].arrival_s for index in order]) if sounds else np.empty(0),
        )

    def playable_at_s(self, sample: int) -> float:
        """Earliest time at which sample number `sample` can be played."""
        packet = int(np.searchsorted(self.starts, sample, side="right")) - 1
        return float(self.arrivals_s[packet] + (sample - self.starts[packet]) / SAMPLE_RATE)

    def find(self, burst: int, captured_s: float) -> int | None:
        """The sample at which the echo of a burst begins, or None when it did not come within `SEARCH_S`."""
        for search_s in (SHORT_SEARCH_S, SEARCH_S):
            first, last = np.searchsorted(self.arrivals_s, (captured_s, captured_s + search_s))
            if first >= self.starts.size:
                return None
            begin = int(self.starts[max(0, first - 1)])
            end = self.pcm.size if last >= self.starts.size else int(self.starts[last])
            likeness = correlate_normalised(self.pcm[begin : end + BURST_SAMPLES], bursts()[burst])
            if likeness.size and likeness.max() >= MIN_CORRELATION:
                return begin + int(likeness.argmax())
        return None


def correlate_normalised(sound: Array, template: Array) -> Array:
    """Likeness in [-1, 1] of `template` with each stretch of `sound`, shape [len(sound) - len(template) + 1]."""
    count = sound.size - template.size + 1
    if count <= 0:
        return np.empty(0)
    size = 1 << (sound.size + template.size - 1).bit_length()
    spectrum = np.fft.rfft(sound, size) * np.conj(np.fft.rfft(template, size))
    matched = np.fft.irfft(spectrum, size)[:count]
    energy = np.concatenate([np.zeros(1), np.cumsum(sound * sound)])
    local = np.sqrt(np.maximum(energy[template.size :] - energy[:count], 1e-6))
    return np.asarray(matched / (local * np.sqrt(template @ template)))


class Burst(NamedTuple):
    """One burst that was said, and how long its echo took; None when it never came."""

    captured_s: float
    m2e_ms: float | None


def mouth_to_ear(echo: Echo, spoken: Sequence[tuple[int, float]]) -> list[Burst]:
    """`spoken` holds (burst number, capture time of its first sample)."""
    heard: list[Burst] = []
    for burst, captured_s in spoken:
        sample = echo.find(burst, captured_s)
        m2e_ms = None if sample is None else (echo.playable_at_s(sample) - captured_s) * 1e3
        heard.append(Burst(captured_s, m2e_ms))
    return heard


def drift_ms_per_min(heard: Sequence[Burst]) -> float | None:
    """Slope of mouth to ear over the call, as the median slope of all pairs (Theil-Sen): one stall does not tilt it.

    None below four bursts.
    """
    points = [(burst.captured_s, burst.m2e_ms) for burst in heard if burst.m2e_ms is not None]
    if len(points) < 4:
        return None
    time_s, m2e_ms = np.array(points).T
    left, right = np.triu_indices(time_s.size, 1)
    return float(np.median((m2e_ms[right] - m2e_ms[left]) / (time_s[right] - time_s[left])) * 60)


class Recovery(NamedTuple):
    """What dropped packets did to the delay. None where no burst lies in the stretch in question."""

    m2e_before_ms: float | None
    """Median before the first drop."""
    m2e_after_2s_ms: float | None
    """The worst, over the drops, of the median from 2 s after a drop to the next drop."""
    m2e_worst_ms: float | None
    """The worst single burst after the first drop."""
    back_after_s: float | None
    """Longest time from a drop to the first of two bursts in a row that are at the delay of before, within 10 ms: 0
    when the drop was not heard, the time to the last burst when the delay never came back."""


def recovery(heard: Sequence[Burst], drops_s: Sequence[float]) -> Recovery:
    """`drops_s` on the same clock as the captures, ascending."""
    points = [(burst.captured_s, burst.m2e_ms) for burst in heard if burst.m2e_ms is not None]
    before = _median([m2e_ms for captured_s, m2e_ms in points if captured_s < drops_s[0] - 0.5])
    settled: list[float] = []
    back: list[float] = []
    for drop_s, next_s in zip(drops_s, [*drops_s[1:], float("inf")], strict=True):
        after = [(captured_s - drop_s, m2e_ms) for captured_s, m2e_ms in points if drop_s <= captured_s < next_s]
        late = _median([m2e_ms for since_s, m2e_ms in after if since_s >= AFTER_DROP_S])
        if late is not None:
            settled.append(late)
        if before is not None and after:
            back.append(_back_after_s(after, before + RECOVERED_WITHIN_MS))
    worst = [m2e_ms for captured_s, m2e_ms in points if captured_s >= drops_s[0]]
    return Recovery(before, max(settled, default=None), max(worst, default=None), max(back, default=None))


def _back_after_s(after: Sequence[tuple[float, float]], limit_ms: float) -> float:
    """`after` holds (time since the drop, mouth to ear) per burst."""
    for index, (since_s, _) in enumerate(after):
        if all(m2e_ms <= limit_ms for _, m2e_ms in after[index : index + 2]):
            return since_s if index else 0.0
    return after[-1][0]


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def percentile(values: Array | Sequence[float], q: float) -> float | None:
    """None where there is nothing to take it of."""
    return float(np.percentile(values, q)) if len(values) else None
