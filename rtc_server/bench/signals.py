"""What the load client says: a loop of bursts whose onsets a matched filter finds in the echo.

Each burst is a chain of short chirps with its own seeded frequencies, so that no burst resembles another; between them
lies quiet noise, so that no voice activity gate sees silence. 24 kHz mono, float32 in [-1, 1].
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 24_000
PACKET_SAMPLES = 480
PACKET_S = 0.020
LOOP_S = 10.0
LOOP_SAMPLES = round(LOOP_S * SAMPLE_RATE)
LOOP_PACKETS = LOOP_SAMPLES // PACKET_SAMPLES

BURSTS = 16
BURST_SPACING_SAMPLES = LOOP_SAMPLES // BURSTS
BURST_CHIRPS = 5
CHIRP_SAMPLES = 720
BURST_SAMPLES = BURST_CHIRPS * CHIRP_SAMPLES
LOWEST_HZ, HIGHEST_HZ = 350.0, 3200.0
_FIRST_ONSET_SAMPLES = 6000 + 130  # in the middle of a packet: onsets shall not lie on packet edges
_SEED = 20_240

Samples = NDArray[np.float32]


@functools.cache
def bursts() -> NDArray[np.float64]:
    """The bursts themselves, shape [BURSTS, BURST_SAMPLES], peak 0.6."""
    random = np.random.default_rng(_SEED)
    edge = np.hanning(CHIRP_SAMPLES)
    time_s = np.arange(CHIRP_SAMPLES) / SAMPLE_RATE
    duration_s = CHIRP_SAMPLES / SAMPLE_RATE
    made = np.empty((BURSTS, BURST_SAMPLES))
    for burst in range(BURSTS):
        for chirp in range(BURST_CHIRPS):
            start_hz, end_hz = random.uniform(LOWEST_HZ, HIGHEST_HZ, size=2)
            phase = 2 * np.pi * (start_hz * time_s + (end_hz - start_hz) / (2 * duration_s) * time_s**2)
            made[burst, chirp * CHIRP_SAMPLES : (chirp + 1) * CHIRP_SAMPLES] = np.sin(phase) * edge
    return 0.6 * made


def onset_samples(burst: int) -> int:
    """Where in the loop burst number `burst` begins."""
    return _FIRST_ONSET_SAMPLES + burst * BURST_SPACING_SAMPLES


@functools.cache
def loop() -> Samples:
    """One turn of the loop, shape [LOOP_SAMPLES]; its end fits its start."""
    random = np.random.default_rng(_SEED + 1)
    sound = random.standard_normal(LOOP_SAMPLES) * 0.004
    for burst in range(BURSTS):
        at = onset_samples(burst)
        sound[at : at + BURST_SAMPLES] += bursts()[burst]
    return sound.astype(np.float32)


def bursts_between(first_packet: int, last_packet: int, loop_offset_packets: int = 0) -> list[tuple[int, float]]:
    """Bursts that lie whole within packets ``[first_packet, last_packet)`` of a stream of the loop.

    Args:
        loop_offset_packets: which packet of the loop the stream began with.

    Returns:
        (burst number, onset in seconds from the stream's first sample) in order of time.
    """
    found: list[tuple[int, float]] = []
    begin = (first_packet + loop_offset_packets) * PACKET_SAMPLES
    end = (last_packet + loop_offset_packets) * PACKET_SAMPLES
    turn = begin // LOOP_SAMPLES
    while turn * LOOP_SAMPLES < end:
        for burst in range(BURSTS):
            onset = turn * LOOP_SAMPLES + onset_samples(burst)
            if begin <= onset and onset + BURST_SAMPLES <= end:
                found.append((burst, (onset - loop_offset_packets * PACKET_SAMPLES) / SAMPLE_RATE))
        turn += 1
    return found
