from __future__ import annotations

import pytest

from rtc_server.engine.spare import MIN_BUDGET_S, MIN_MARGIN_S, SpareTime


def test_prompts_take_turns_and_each_is_asked_once_a_period() -> None:
    spare = SpareTime()
    asked = []
    for period in range(4):
        while (index := spare.next([0, 2, 5], 0.080, 0.0, period, neighbours=False)[0]) is not None:
            spare.asked(index)
            asked.append((period, index))
    assert [index for period, index in asked if period == 0] == [0, 2, 5]
    assert len(asked) == len(set(asked)) == 12


def test_the_one_that_got_no_time_comes_first_in_the_next_period() -> None:
    spare = SpareTime()
    spare.asked(0)
    assert spare.next([0, 1], 0.080, 0.0, period=7, neighbours=False)[0] == 1


def test_without_neighbours_the_whole_time_to_the_edge_is_available() -> None:
    assert SpareTime().next([0], due_s=0.080, now=0.0, period=1, neighbours=False) == (0, 0.080)


def test_with_neighbours_a_margin_stays_free() -> None:
    spare = SpareTime()
    assert spare.next([0], 0.080, 0.0, 1, neighbours=True) == (0, 0.080 - MIN_MARGIN_S)
    spare.stepped(0.060)
    assert spare.next([0], 0.080, 0.0, 2, neighbours=True) == (0, 0.080 - 0.015)


def test_what_prefill_took_beyond_its_budget_is_kept_free_and_forgotten_slowly() -> None:
    spare = SpareTime()
    spare.prefilled(budget_s=0.050, took_s=0.250)
    assert spare.next([0], 0.080, 0.0, 1, neighbours=True) == (None, 0.0)
    for _ in range(60):
        spare.stepped(0.001)
    index, budget_s = spare.next([0], 0.080, 0.0, 2, neighbours=True)
    assert index == 0 and budget_s > 0.060


def test_ticks_that_come_early_go_on_coming_early() -> None:
    spare = SpareTime()
    spare.ticked(lead_s=0.040)
    index, budget_s = spare.next([0], due_s=0.080, now=0.0, period=1, neighbours=True)
    assert index == 0
    assert budget_s == pytest.approx(0.040 - MIN_MARGIN_S)


def test_too_little_time_is_not_worth_a_call() -> None:
    assert SpareTime().next([0], due_s=MIN_BUDGET_S / 2, now=0.0, period=1, neighbours=False) == (None, 0.0)
