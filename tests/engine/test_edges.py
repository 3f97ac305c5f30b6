from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rtc_server.engine.edges import TickEdges


def test_edges_do_not_drift() -> None:
    edges = TickEdges(5.0)
    for number in range(1, 100_001):
        assert edges.begin(edges.due_s) == (number, 0)
    assert edges.due_s == 5.0 + 100_001 * 0.080


def test_an_early_tick_counts_for_the_edge_ahead() -> None:
    edges = TickEdges(0.0)
    assert edges.begin(0.070) == (1, 0)
    assert edges.opens_s == 0.080
    assert edges.due_s == 0.160


def test_edges_that_nobody_was_awake_for_are_skipped() -> None:
    edges = TickEdges(0.0)
    assert edges.begin(0.080 * 4 + 0.001) == (4, 3)
    assert edges.number == 5


def test_edges_that_go_by_during_a_step_are_passed_over() -> None:
    edges = TickEdges(0.0)
    edges.begin(0.080)
    assert edges.pass_over(0.159) == 0
    assert edges.pass_over(0.161) == 1
    assert edges.due_s == 0.240


@given(st.lists(st.tuples(st.floats(0.0, 0.3), st.floats(0.0, 0.3)), max_size=50), st.floats(0, 1e6))
def test_every_edge_gets_one_tick_or_is_counted(turns: list[tuple[float, float]], origin_s: float) -> None:
    """Whatever the thread and the steps do: ticks + skipped edges == edges so far, and never two ticks for one."""
    edges = TickEdges(origin_s)
    now, skipped, last = origin_s, 0, 0
    for ticks, (slept_s, step_s) in enumerate(turns, start=1):
        now = max(now + slept_s, edges.opens_s)
        tick, slept_over = edges.begin(now)
        assert tick > last
        last = tick
        now += step_s
        skipped += slept_over + edges.pass_over(now)
        assert ticks + skipped == edges.number - 1
        assert edges.due_s > now
        assert edges.due_s - now <= 0.160 + 1e-6
