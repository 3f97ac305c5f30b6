"""A network in virtual time: when each packet of a stream arrives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rtc_server.bench.impairment import Impairment, NetworkPath

PACKET_BYTES = 100
STORM_STEP_S = 0.16


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Impairment):
    """What the benchmark's relay does to packets, and what a test needs at a chosen moment."""

    delay_ms: float = 20.0
    lost: tuple[int, ...] = ()
    """Numbers of packets that never arrive."""
    standstills: tuple[tuple[float, float], ...] = ()
    """(from, seconds) in which nothing arrives, and everything right behind it."""
    drift_ppm: float = 0.0
    """The sender's clock against ours."""

    def sender_s(self, seconds: float) -> float:
        """Seconds of the sender's clock on ours."""
        return seconds * (1 - self.drift_ppm * 1e-6)

    def arrivals(self, count: int, packet_s: float, seed: int) -> list[tuple[float, int]]:
        """Sorted (arrival in s, packet); a packet leaves when its last sample was spoken."""
        path, lost, standstills = NetworkPath(self, seed), set(self.lost), sorted(self.standstills, reverse=True)
        arrivals = []
        for number in range(count):
            sent_s = self.sender_s((number + 1) * packet_s)
            while standstills and standstills[-1][0] <= sent_s + self.delay_ms / 1000:
                start_s, seconds = standstills.pop()
                path.stand_still(start_s, seconds)
            arrivals += [(at, number) for at in path.arrivals(sent_s, PACKET_BYTES) if number not in lost]
        return sorted(arrivals)


def storm(start_s: float, seconds: float = 2.0, seed: int = 0) -> tuple[tuple[float, float], ...]:
    """Standstills of 30 to 150 ms, one after the other."""
    rng = np.random.default_rng(seed)
    return tuple(
        (start_s + k * STORM_STEP_S, float(rng.uniform(0.03, 0.15))) for k in range(int(seconds / STORM_STEP_S))
    )
