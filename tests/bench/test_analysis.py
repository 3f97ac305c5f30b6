import numpy as np
import pytest

from rtc_server.bench import analysis, signals
from rtc_server.bench.analysis import Burst, Echo, ReceivedPacket
from tests.bench import echoes

SECONDS = 12.0


def values(heard: list[Burst]) -> list[float]:
    return [burst.m2e_ms for burst in heard if burst.m2e_ms is not None]


def test_mouth_to_ear_is_packetisation_plus_delay_for_every_burst() -> None:
    heard = echoes.heard(echoes.packets(SECONDS + 1, lambda _: 0.073), SECONDS)
    assert len(heard) == len(values(heard)) == len(echoes.spoken(SECONDS))
    assert values(heard) == pytest.approx([20 + 73] * len(heard), abs=0.01)


def test_an_echo_a_second_late_is_found_and_one_beyond_the_search_is_missed() -> None:
    heard = echoes.heard(echoes.packets(SECONDS + 3, lambda _: 2.5), SECONDS)
    assert values(heard) == pytest.approx([2520] * len(heard), abs=0.01)
    late = echoes.heard(echoes.packets(SECONDS + 8, lambda _: analysis.SEARCH_S + 0.5), 2.0)
    assert [burst.m2e_ms for burst in late] == [None] * len(late) != []


def test_an_echo_that_never_came_is_missed() -> None:
    silence = [packet._replace(payload=bytes(1920)) for packet in echoes.packets(SECONDS, lambda _: 0.0)]
    heard = echoes.heard(silence, SECONDS)
    assert heard and not values(heard)
    assert echoes.heard([], SECONDS) == [Burst(at_s, None) for _, at_s in echoes.spoken(SECONDS)]


def test_lost_and_reordered_packets_do_not_shift_later_bursts() -> None:
    received = echoes.packets(SECONDS + 1, lambda _: 0.05)
    del received[200:203]
    received[300], received[301] = received[301], received[300]
    heard = echoes.heard(sorted(received, key=lambda packet: packet.arrival_s), SECONDS)
    untouched = [m2e_ms for m2e_ms in values(heard) if m2e_ms == pytest.approx(70, abs=0.01)]
    assert len(untouched) >= len(heard) - 2


def test_a_duplicate_counts_once_and_at_its_first_arrival() -> None:
    received = echoes.packets(1.0, lambda _: 0.0)
    again = [packet._replace(arrival_s=packet.arrival_s + 0.5) for packet in received]
    both = sorted(received + again, key=lambda packet: packet.arrival_s)
    echo = Echo.from_packets(both, echoes.decode)
    assert echo.pcm.size == 50 * signals.PACKET_SAMPLES
    assert echo.arrivals_s.tolist() == [packet.arrival_s for packet in received]
    assert analysis.lost_packets(both) == 0


def test_drift_is_the_slope_and_one_stall_does_not_tilt_it() -> None:
    per_packet_s = 0.030 / 60 * signals.PACKET_S
    heard = echoes.heard(echoes.packets(21, lambda n: 0.05 + n * per_packet_s), 20)
    assert analysis.drift_ms_per_min(heard) == pytest.approx(30, abs=0.5)
    stalled = [burst._replace(m2e_ms=900.0) if n == 5 else burst for n, burst in enumerate(heard)]
    assert analysis.drift_ms_per_min(stalled) == pytest.approx(30, abs=3)
    assert analysis.drift_ms_per_min(heard[:3]) is None


def test_lateness_is_counted_from_the_earliest_packet_of_the_stream() -> None:
    received = echoes.packets(4.0, lambda n: 0.030 if n % 10 == 3 else 0.005)
    late_ms = analysis.lateness_ms(received)
    assert late_ms.min() == 0
    assert np.flatnonzero(late_ms > 1).tolist() == [*range(3, 200, 10)]
    assert late_ms.max() == pytest.approx(25, abs=0.01)
    assert analysis.lateness_ms([]).size == 0


def test_a_stream_that_falls_behind_is_late_even_though_its_gaps_are_even() -> None:
    received = echoes.packets(10.0, lambda n: n * 0.001)
    assert analysis.lateness_ms(received)[-1] == pytest.approx(499, abs=1)
    assert analysis.received_gaps_ms(received).max() == pytest.approx(1, abs=0.01)


def test_received_gaps_are_distances_from_20_ms() -> None:
    received = [ReceivedPacket(n, n * 960, at_s, b"") for n, at_s in enumerate([0.0, 0.020, 0.035, 0.080])]
    assert analysis.received_gaps_ms(received).tolist() == pytest.approx([0, 5, 25])
    assert analysis.received_gaps_ms(received[:1]).size == 0


def test_lost_packets_are_counted_across_the_wrap_of_sequence_numbers() -> None:
    received = [ReceivedPacket(sequence, 0, 0.0, b"") for sequence in (65_534, 65_535, 1, 0, 4)]
    assert analysis.lost_packets(received) == 2
    assert analysis.lost_packets([]) == 0


def test_unwrap_steps_back_as_well_as_forward() -> None:
    assert analysis.unwrap([65_535, 0, 65_534, 2], 16).tolist() == [0, 1, -1, 3]
    assert analysis.unwrap([], 16).tolist() == []


def spell(before_ms: float, during_ms: float, until_s: float, drop_s: float) -> list[Burst]:
    """A burst each half second: `during_ms` from the drop until `until_s` after it."""
    times_s = np.arange(0, 20, 0.5)
    return [Burst(t, during_ms if drop_s <= t < drop_s + until_s else before_ms) for t in times_s]


def test_recovery_tells_how_long_the_delay_stayed_up() -> None:
    recovery = analysis.recovery(spell(120, 200, until_s=1.2, drop_s=5.0), [5.0])
    assert recovery == (120, 120, 200, 1.5)


def test_recovery_sees_a_delay_that_never_comes_back() -> None:
    recovery = analysis.recovery(spell(120, 320, until_s=99, drop_s=5.0), [5.0])
    assert recovery.m2e_before_ms == 120
    assert recovery.m2e_after_2s_ms == 320
    assert recovery.back_after_s == 14.5


def test_a_single_late_burst_long_after_the_drop_is_not_taken_for_its_consequence() -> None:
    heard = [burst._replace(m2e_ms=190.0) if burst.captured_s == 12 else burst for burst in spell(120, 120, 1, 5.0)]
    assert analysis.recovery(heard, [5.0]) == (120, 120, 190, 0.0)


def test_recovery_reports_the_worst_of_several_drops() -> None:
    heard = spell(120, 320, until_s=99, drop_s=10.0)
    assert analysis.recovery(heard, [5.0, 10.0]).m2e_after_2s_ms == 320


def test_recovery_without_bursts_knows_nothing() -> None:
    assert analysis.recovery([], [5.0]) == (None, None, None, None)


def test_percentile_of_nothing_is_none() -> None:
    assert analysis.percentile([], 50) is None
    assert analysis.percentile([1.0, 3.0], 50) == 2.0
