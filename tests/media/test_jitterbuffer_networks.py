"""What holds on every path: samples in step with the wall clock, no queue that grows, the delay near its target."""

from __future__ import annotations

import functools
import itertools
import math
import os

import numpy as np
import pytest

from rtc_server.bench.impairment import SHAPES
from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE
from tests.media.calls import SETTLED, Call, call
from tests.media.network import Network
from tests.media.speech import encoded, talk

SECONDS = 20.0
MAX_DELAY_MS = 200 + 20 + 5
"""The target's cap, a frame's end moved to a packet's end, hysteresis."""
PHASES_S = (0.002, 0.027, 0.052, 0.077)
"""Of the tick, and of the packets within it."""
JITTER = [Network(jitter_ms=jitter, shape=shape) for shape, jitter in itertools.product(SHAPES, (20.0, 60.0, 100.0))]
LOSS = [Network(loss=loss) for loss in (0.01, 0.05, 0.1, 0.2)]
OTHER = [
    Network(),
    Network(loss=0.1, burst=3.0),
    Network(reorder=0.05),
    Network(duplicate=0.1),
    Network(loss=0.1, jitter_ms=60.0),
    Network(loss=0.2, burst=2.0, jitter_ms=100.0, duplicate=0.02),
    Network(lost=tuple(range(400, 412))),
]


def named(network: Network) -> str:
    values = (
        (name, getattr(network, name)) for name in ("loss", "burst", "jitter_ms", "shape", "reorder", "duplicate")
    )
    default = Network()
    return " ".join(f"{name}={value}" for name, value in values if value != getattr(default, name)) or "other"


@functools.cache
def payloads(packet_ms: int = 20) -> list[bytes]:
    return encoded(talk(SECONDS), packet_ms)


@functools.cache
def calls(network: Network, packet_ms: int = 20) -> list[Call]:
    return [
        call(payloads(packet_ms), network, packet_ms=packet_ms, phase_s=phase_s, seed=seed)
        for seed, phase_s in enumerate(PHASES_S)
    ]


def settled_mean(values: list[float]) -> float:
    return float(np.mean(values[SETTLED:]))


@pytest.mark.parametrize("network", JITTER + LOSS + OTHER, ids=named)
def test_samples_given_are_the_wall_clocks_and_no_queue_grows(network: Network) -> None:
    for running in calls(network):
        elapsed_s = running.times[-1] - running.times[0]
        assert abs(running.pcm.size - elapsed_s * SAMPLE_RATE) <= FRAME_SAMPLES
        assert max(running.delays_ms) < MAX_DELAY_MS


@pytest.mark.parametrize("network", JITTER + LOSS + OTHER, ids=named)
def test_mean_delay_is_within_twenty_milliseconds_of_the_target(network: Network) -> None:
    away = [settled_mean(running.delays_ms) - settled_mean(running.targets_ms) for running in calls(network)]
    assert -1 < np.mean(away) < 20


@pytest.mark.parametrize("packet_ms", [10, 20, 40, 60])
def test_delay_on_a_clean_path_is_a_packet_from_the_target_at_most(packet_ms: int) -> None:
    border_ms = math.gcd(packet_ms, 80)
    for running in calls(Network(), packet_ms):
        away = np.array(running.delays_ms[SETTLED:]) - running.targets_ms[-1]
        assert -0.1 <= away.min() <= away.max() <= border_ms + 3
        counters = running.buffer.counters
        assert running.targets_ms[-1] == pytest.approx(10 + packet_ms - border_ms)
        assert counters.concealed_samples == counters.cut_samples == counters.added_samples == 0


@pytest.mark.parametrize("packet_ms", [10, 20, 40, 60])
def test_packets_of_every_size_survive_loss_and_jitter(packet_ms: int) -> None:
    for running in calls(Network(loss=0.05, jitter_ms=60.0), packet_ms):
        counters = running.buffer.counters
        assert max(running.delays_ms) < MAX_DELAY_MS + {10: 0, 20: 0, 40: 20, 60: 40}[packet_ms]
        given = counters.frames * FRAME_SAMPLES
        assert counters.concealed_samples < 0.09 * given
        assert counters.unheard_samples < 0.02 * given


@pytest.mark.parametrize("network", [Network(loss=loss) for loss in (0.05, 0.2)], ids=named)
def test_losses_add_no_delay_and_nothing_else_is_invented(network: Network) -> None:
    for running in calls(network):
        assert max(running.delays_ms[SETTLED:]) - min(running.delays_ms[SETTLED:]) < 0.01
        counters = running.buffer.counters
        assert counters.late == counters.discarded == counters.replayed_samples == counters.cut_samples == 0
        assert counters.fec_samples + counters.concealed_samples <= counters.lost_samples * 1.1 + FRAME_SAMPLES


@pytest.mark.soak
@pytest.mark.parametrize("drift_ppm", [-300, -100, 100, 300])
def test_drift_of_the_clocks_neither_grows_the_delay_nor_invents_sound(drift_ppm: float) -> None:
    minutes = 60 if os.environ.get("RTC_SOAK") else 6
    running = call(payloads() * (minutes * 60 // int(SECONDS)), Network(drift_ppm=drift_ppm), phase_s=0.022)
    assert min(running.delays_ms[SETTLED:]) > 7
    assert max(running.delays_ms[SETTLED:]) < 35
    counters = running.buffer.counters
    assert counters.concealed_samples == counters.lost_samples == counters.late == counters.resyncs == 0
    moved_s = (counters.cut_samples - counters.added_samples) / SAMPLE_RATE
    assert moved_s == pytest.approx(minutes * 60 * drift_ppm * 1e-6, abs=0.025)


@pytest.mark.parametrize("drift_ppm", [-300, 300])
def test_drift_is_followed_under_jitter_as_well(drift_ppm: float) -> None:
    running = call(payloads() * 12, Network(drift_ppm=drift_ppm, jitter_ms=30.0), phase_s=0.022)
    minute = 750
    assert np.mean(running.delays_ms[-minute:]) == pytest.approx(np.mean(running.delays_ms[minute : 2 * minute]), abs=8)
    counters = running.buffer.counters
    assert counters.concealed_samples < 0.012 * counters.frames * FRAME_SAMPLES
