from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.delay import DelayEstimator, TickPhase
from rtc_server.media.frames import FRAME_S, SAMPLE_RATE
from rtc_server.media.jitterconfig import JitterConfig

MS = 24


def learned(delays_ms: list[float], packet_s: float = 0.02) -> DelayEstimator:
    estimator = DelayEstimator(JitterConfig())
    for k, delay in enumerate(delays_ms):
        estimator.learn(k * packet_s + delay / 1000, delay * MS, 480)
    return estimator


def wanted_ms(estimator: DelayEstimator) -> float:
    return (estimator.wanted() - estimator.minimum) / MS


def test_even_path_wants_the_least_slack() -> None:
    assert wanted_ms(learned([30.0] * 100)) == pytest.approx(10)


def test_more_is_wanted_before_anything_is_known() -> None:
    assert wanted_ms(learned([30.0])) == pytest.approx(10)
    assert wanted_ms(learned([30.0, 50.0, 30.0])) == pytest.approx(30)


def test_jitter_wants_its_95th_percentile() -> None:
    delays = [float(delay) for delay in np.random.default_rng(0).permutation(np.linspace(30, 130, 100))]
    assert wanted_ms(learned(delays)) == pytest.approx(95, abs=3)


def test_no_jitter_wants_more_than_the_cap() -> None:
    assert wanted_ms(learned([30.0, 900.0] * 50)) == pytest.approx(200)


def test_what_was_two_seconds_ago_is_forgotten() -> None:
    assert wanted_ms(learned([30.0, 130.0] * 50 + [30.0] * 105)) == pytest.approx(10)


def test_a_standstill_counts_for_a_little_only() -> None:
    estimator = learned([30.0] * 95)
    for k in range(15):  # 300 ms of packets that come together
        estimator.learn(2.2 + k * 1e-4, (330 - k * 20) * MS, 480)
    assert wanted_ms(estimator) == pytest.approx(10)


def test_minimum_follows_a_path_that_has_become_longer() -> None:
    estimator = learned([30.0] * 100 + [80.0] * 520)
    assert estimator.minimum == pytest.approx(80 * MS)


def test_scatter_of_ticks_is_smoothed_and_drift_followed() -> None:
    rng, phase = np.random.default_rng(0), TickPhase()
    true = [k * FRAME_S * 1.0003 for k in range(2000)]
    errors = [phase.smooth(at + rng.uniform(-0.01, 0.01)) / SAMPLE_RATE - at for at in true]
    assert np.abs(errors[100:]).max() < 0.007
    assert abs(np.mean(errors[100:])) < 0.001


def test_frames_taken_together_keep_their_time() -> None:
    phase = TickPhase()
    assert [phase.smooth(1.0) / SAMPLE_RATE for _ in range(3)] == pytest.approx([1.0] * 3)


def test_of_what_comes_at_once_in_the_beginning_only_the_newest_counts() -> None:
    estimator = DelayEstimator(JitterConfig())
    for k in range(3):  # a phone that took a moment to begin
        estimator.learn(k * 2e-4, (41 - 20 * k) * MS, 480)
    for k in range(1, 6):
        estimator.learn(k * 0.02, MS, 480)
    assert wanted_ms(estimator) == pytest.approx(10)
