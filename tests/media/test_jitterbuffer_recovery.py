"""How soon the delay is back where it was after the path stood still, or the engine did."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES, PACKET_S
from rtc_server.media.jitterbuffer import JitterBuffer
from tests.media.calls import SETTLED, Call, call
from tests.media.network import Network, storm
from tests.media.speech import encoded, talk, talk_without_pauses

TALK_S = 45.0
LEAD_S = 6.0
"""Of an even path before it happens."""
AFTER_S = 6.0
PLACES_S = (9.0, 20.0, 27.0, 36.0)
"""Where in the talk it happens; at 36 s of the one with pauses somebody speaks in noise, and nothing is quiet."""
PHASES_S = (0.007, 0.033, 0.059)

both_talks = pytest.mark.parametrize("pauses", [True, False], ids=["with pauses", "without pauses"])


@functools.cache
def packets(pauses: bool, packet_ms: int) -> list[bytes]:
    return encoded(talk(TALK_S) if pauses else talk_without_pauses(TALK_S), packet_ms)


def calls(network: Network, pauses: bool, packet_ms: int = 20, copies: int = 0) -> Iterator[Call]:
    """What happens in `network` at `LEAD_S` happens in another place of the talk each time."""
    for at_s in PLACES_S:
        first, last = (int(second * 1000 / packet_ms) for second in (at_s - LEAD_S, at_s + AFTER_S))
        for seed, phase_s in enumerate(PHASES_S):
            payloads = packets(pauses, packet_ms)[first:last]
            yield call(payloads, network, packet_ms=packet_ms, phase_s=phase_s, seed=seed, copies=copies)


@pytest.mark.parametrize("seconds", [0.15, 0.3, 1.0])
@both_talks
def test_delay_is_back_two_and_a_half_seconds_after_the_path_stood_still(seconds: float, pauses: bool) -> None:
    for running in calls(Network(standstills=((LEAD_S, seconds),)), pauses):
        assert running.recovery_s(LEAD_S, LEAD_S + seconds) < 2.5
        assert max(running.delays_ms) < 225


@pytest.mark.parametrize("packet_ms", [10, 40, 60])
def test_packets_of_every_size_are_back_in_time(packet_ms: int) -> None:
    for running in calls(Network(standstills=((LEAD_S, 0.3),)), pauses=False, packet_ms=packet_ms):
        assert running.recovery_s(LEAD_S, LEAD_S + 0.3) < 2.5


@both_talks
def test_delay_is_back_four_seconds_after_a_storm(pauses: bool) -> None:
    for seed in range(3):
        for running in calls(Network(standstills=storm(LEAD_S, 2.0, seed)), pauses):
            assert running.recovery_s(LEAD_S, LEAD_S + 2.0) < 4.0


@both_talks
def test_delay_is_back_four_seconds_after_several_standstills(pauses: bool) -> None:
    standstills = ((LEAD_S, 0.25), (LEAD_S + 0.6, 0.25), (LEAD_S + 1.3, 0.25))
    for running in calls(Network(standstills=standstills), pauses):
        assert running.recovery_s(LEAD_S, LEAD_S + 1.55) < 4.0


@pytest.mark.parametrize("copies", [0, 1, 2])
@pytest.mark.parametrize("run", [1, 2, 12])
def test_a_run_of_losses_adds_no_delay(run: int, copies: int) -> None:
    first = int(LEAD_S / PACKET_S)
    for running in calls(Network(lost=tuple(range(first, first + run))), pauses=False, copies=copies):
        assert max(running.delays_ms[SETTLED:]) - min(running.delays_ms[SETTLED:]) < 0.01
        counters = running.buffer.counters
        assert counters.recovered_packets <= min(run, copies)
        assert counters.lost_samples == (run - counters.recovered_packets) * 480


@pytest.mark.parametrize("skipped", [True, False], ids=["told", "not told"])
@both_talks
def test_delay_is_back_at_once_after_the_engine_stood_still(pauses: bool, skipped: bool) -> None:
    """Nobody takes the frames of a second. With what was passed over, samples given are the wall clock's even so."""
    payloads, buffer, missed = packets(pauses, 20)[:600], JitterBuffer(), range(75, 88)
    running, taken, sent = Call(buffer), 0, 0
    for tick in range(140):
        now = 0.015 + tick * FRAME_S
        while sent * PACKET_S + 0.04 <= now:
            buffer.put(sent * PACKET_S + 0.04, sent, sent * 960, payloads[sent])
            sent += 1
        if tick in missed:
            continue
        if skipped and tick == missed.stop:
            buffer.skip(len(missed))
        running.tick(now)
        taken += 1
    after = running.delays_ms[missed.start + 2 :]
    assert max(after) <= np.median(running.delays_ms[SETTLED : missed.start]) + 20.1
    skipped_frames = buffer.counters.skipped_samples / FRAME_SAMPLES
    assert abs(taken + skipped_frames - 140) <= 1
