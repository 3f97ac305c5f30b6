import pytest

from rtc_server.bench import figures
from rtc_server.bench.figures import CallRecord, Setup, Window
from rtc_server.bench.procstat import Usage
from tests.bench import echoes
from tests.bench.echoes import START_S

WINDOW = Window(START_S + 2, START_S + 12, Usage(5.0, 90.0), Usage(7.5, 100.0), 1.5, (0.5, 0.5, 0.5))


def record(delay_s: float, seconds: float = 14.0) -> CallRecord:
    return CallRecord(echoes.packets(seconds, lambda _: delay_s), echoes.spoken(12.0))


def test_packets_outside_the_window_do_not_count() -> None:
    late_before = echoes.packets(14.0, lambda n: 0.5 if n < 50 else 0.0)
    found = figures.packet_figures([CallRecord(sorted(late_before, key=lambda p: p.arrival_s), [])], WINDOW)
    assert found["late_p99_ms"] == pytest.approx(0, abs=0.01)
    assert found["received_share"] == pytest.approx(1, abs=0.005)
    assert found["lost"] == 0


def test_a_call_that_hears_nothing_shows() -> None:
    found = figures.packet_figures([record(0.0), CallRecord([], [])], WINDOW)
    assert found["silent_calls"] == 1
    assert found["received_share"] == pytest.approx(0.5, abs=0.005)


def test_nothing_at_all_gives_no_figures_rather_than_good_ones() -> None:
    found = figures.packet_figures([CallRecord([], [])], WINDOW)
    assert found["late_p99_ms"] is None
    assert found["received_gap_p99_ms"] is None
    assert figures.echo_figures([CallRecord([], echoes.spoken(2.0))], WINDOW, [], lambda: echoes.decode)["missed"] == 3


def test_echo_figures_pool_the_calls() -> None:
    found = figures.echo_figures([record(0.1), record(0.1)], WINDOW, [], lambda: echoes.decode)
    assert found["m2e_p50_ms"] == found["m2e_p95_ms"] == found["m2e_first_ms"] == pytest.approx(120, abs=0.01)
    assert found["bursts"] == 2 * len(echoes.spoken(12.0))
    assert found["missed"] == 0
    assert found["drift_ms_per_min"] == pytest.approx(0, abs=0.01)
    assert "m2e_before_ms" not in found


def test_echo_figures_tell_what_drops_did() -> None:
    received = echoes.packets(14.0, lambda n: 0.3 if n >= 300 else 0.1)
    found = figures.echo_figures(
        [CallRecord(received, echoes.spoken(12.0), dropped=1)], WINDOW, [START_S + 6.0], lambda: echoes.decode
    )
    assert found["m2e_before_ms"] == pytest.approx(120, abs=0.01)
    assert found["m2e_after_2s_ms"] == pytest.approx(320, abs=0.01)
    assert found["dropped"] == 1


def test_costs_are_per_call_and_minute() -> None:
    found = figures.cost_figures(5, WINDOW)
    assert found["cpu_s_per_call_min"] == 3.0
    assert found["server_cpu_util"] == 0.25
    assert found["client_cpu_util"] == 0.15
    assert found["rss_mb"] == 100.0
    elsewhere = figures.cost_figures(5, Window(0.0, 10.0))
    assert elsewhere["cpu_s_per_call_min"] is elsewhere["rss_mb"] is None


def test_setup_times_count_from_the_offer() -> None:
    found = figures.setup_figures([Setup(10.0, 10.005, 10.030, 10.060), Setup(20.0, 20.015, 20.050, 20.100)])
    assert (found["answer_p50_ms"], found["dtls_p50_ms"], found["connect_p50_ms"]) == (10.0, 40.0, 80.0)
    assert figures.setup_figures([])["connect_p50_ms"] is None


def test_ratios_are_theirs_over_ours() -> None:
    theirs: figures.Figures = {"a": 300.0, "b": None, "c": 1.0}
    ours: figures.Figures = {"a": 120.0, "b": 1.0, "c": 0}
    assert figures.ratios(theirs, ours, ("a", "b", "c", "d")) == {"a": 2.5, "b": None, "c": None, "d": None}
