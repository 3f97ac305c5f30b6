from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.transports.pacer import MAX_SLEW_S, MAX_WAIT_S, SLOT_S, Pacer, SlotGrid


def run(grid: SlotGrid, wakeups: list[float]) -> list[float]:
    return [slot for now in wakeups if (slot := grid.take(now)) is not None]


def test_slots_lie_on_an_absolute_grid_however_late_they_are_served() -> None:
    slots = run(SlotGrid(10.0), [10.0, 10.0213, 10.0408, 10.0799])
    assert slots == pytest.approx([10.0, 10.02, 10.04, 10.06])


def test_each_slot_is_served_once() -> None:
    assert run(SlotGrid(10.0), [9.99, 10.0, 10.001, 10.019, 10.02]) == pytest.approx([10.0, 10.02])


def test_after_a_stall_missed_slots_are_skipped_not_sent_in_a_burst() -> None:
    grid = SlotGrid(10.0)
    assert run(grid, [10.0, 11.005, 11.006, 11.007, 11.02]) == pytest.approx([10.0, 11.0, 11.02])
    assert grid.skipped == 49


def test_time_without_legs_is_no_stall() -> None:
    grid = SlotGrid(10.0)
    grid.restart(500.003)
    assert grid.next_s == pytest.approx(500.02)
    assert grid.skipped == 0


def test_first_leg_finds_the_wanted_phase_at_once() -> None:
    grid = SlotGrid(10.0)
    grid.align(12.0, 0.007)
    grid.restart(500.003)
    assert grid.next_s == pytest.approx(500.007)
    assert run(grid, [500.007, 500.027]) == pytest.approx([500.007, 500.027])


def serve(grid: SlotGrid, count: int) -> list[float]:
    slots: list[float] = []
    while len(slots) < count:
        slot_s = grid.take(grid.next_s)
        if slot_s is not None:
            slots.append(slot_s)
    return slots


@given(st.floats(-1.0, 1.0))
def test_grid_slews_to_the_ticks_phase_by_at_most_a_millisecond_a_slot(tick_s: float) -> None:
    grid = SlotGrid(10.0)
    grid.align(10.0 + tick_s, 0.003)
    slots = serve(grid, 25)
    gaps = [later - earlier for earlier, later in zip(slots, slots[1:], strict=False)]
    assert all(abs(gap - SLOT_S) <= MAX_SLEW_S + 1e-9 for gap in gaps)
    error_s = (slots[-1] - 10.003 - tick_s + SLOT_S / 2) % SLOT_S - SLOT_S / 2
    assert abs(error_s) < 1e-6


def test_later_output_moves_slots_later_at_once_and_back_slowly() -> None:
    grid = SlotGrid(10.0)
    grid.align(10.0, 0.0)
    serve(grid, 10)
    grid.align(10.0, 0.012)
    grown = serve(grid, 20)
    assert grown[-1] - grown[0] == pytest.approx(19 * SLOT_S + 0.012, abs=0.0011)
    grid.align(10.0, 0.0)
    shrunk = serve(grid, 200)
    assert shrunk[19] - shrunk[0] > 19 * SLOT_S - 0.0081
    assert (shrunk[-1] - 10.0 + SLOT_S / 2) % SLOT_S - SLOT_S / 2 == pytest.approx(0, abs=1e-6)


@given(st.lists(st.floats(0.0, 0.07), min_size=1, max_size=60))
def test_grid_never_turns_against_the_wall_clock(offsets_s: list[float]) -> None:
    """However the offset rises and falls, the slots served are the time that passed, give or take the offset itself."""
    grid = SlotGrid(10.0)
    count = 0
    for tick, offset_s in enumerate(offsets_s):
        grid.align(10.0 + 0.08 * tick, offset_s)
        count += len(serve(grid, 4))
    assert abs(grid.next_s - 10.0 - count * SLOT_S) <= max(offsets_s) + SLOT_S


def ticking(
    late_s: dict[int, float], stall_s: tuple[float, float] = (0.0, 0.0)
) -> tuple[SlotGrid, list[tuple[float, float]]]:
    """30 ticks from 10.0 on, 80 ms apart, whose outputs come 4 ms behind them, and later in some. The grid, and each
    packet's slot with the time it left, by a pacer that is woken in time, except within `stall_s`."""
    grid, sent = SlotGrid(10.005), []
    outputs = [(10.0 + 0.08 * tick + 0.004 + late_s.get(tick, 0.0), tick) for tick in range(30)]
    for step in range(round(30 * 0.08 / 0.0005)):
        now = 10.0 + step * 0.0005
        while outputs and outputs[0][0] <= now:
            grid.align(10.0 + 0.08 * (outputs.pop(0)[1] + 1), 0.005)
        if not stall_s[0] < now < stall_s[1] and (slot_s := grid.take(now)) is not None:
            sent.append((slot_s, now))
    return grid, sent


def test_slot_of_a_late_frame_waits_for_it_and_those_behind_do_not() -> None:
    grid, sent = ticking({10: 0.008, 20: 0.010})
    waited = [(slot_s, now - slot_s) for slot_s, now in sent if now - slot_s > 0.001]
    assert [slot_s for slot_s, _ in waited] == pytest.approx([10.805, 11.605])
    assert [wait_s for _, wait_s in waited] == pytest.approx([0.007, 0.009], abs=0.002)
    assert all(later - earlier == pytest.approx(SLOT_S) for (earlier, _), (later, _) in pairwise(sent))
    assert grid.skipped == 0


def test_slot_waits_for_no_longer_than_a_listener_forgives() -> None:
    _, sent = ticking({10: 0.060})
    assert max(now - slot_s for slot_s, now in sent) == pytest.approx(MAX_WAIT_S, abs=0.002)


def test_nothing_waits_for_an_output_that_never_comes_in_time() -> None:
    """An engine at its limit, or one that has nobody to answer before its edge."""
    _, sent = ticking(dict.fromkeys(range(10, 25), 0.040))
    assert sum(now - slot_s > 0.001 for slot_s, now in sent) == 1


def test_slot_that_has_waited_is_not_skipped_because_the_loop_is_late_then() -> None:
    grid, sent = ticking({10: 0.012}, stall_s=(10.812, 10.828))
    assert grid.skipped == 0
    assert all(later - earlier == pytest.approx(SLOT_S) for (earlier, _), (later, _) in pairwise(sent))


@given(st.lists(st.floats(0.0, 0.3), min_size=1, max_size=100))
def test_sent_and_skipped_slots_together_are_the_time_that_passed(gaps: list[float]) -> None:
    grid = SlotGrid(10.0)
    now, sent = 10.0, 0
    for gap in gaps:
        now += gap
        sent += grid.take(now) is not None
    elapsed_slots = int((now - 10.0) / SLOT_S + 1e-6)
    assert 0 <= sent + grid.skipped - elapsed_slots <= 1
    assert grid.next_s > now - SLOT_S


class Sender:
    def __init__(self, breaks: bool = False) -> None:
        self.slots: list[float] = []
        self.failed: list[str] = []
        self._breaks = breaks

    def send_packet(self, slot_s: float) -> None:
        self.slots.append(slot_s)
        if self._breaks:
            raise ValueError("broken leg")

    def fail(self, reason: str) -> None:
        self.failed.append(reason)


def test_leg_that_raises_is_closed_and_its_neighbours_go_on() -> None:
    pacer = Pacer(clock=lambda: 0.0)
    before, broken, after = Sender(), Sender(breaks=True), Sender()
    for sender in (before, broken, after):
        pacer.add(sender)
    pacer._serve(1.0)
    pacer._serve(1.02)
    assert before.slots == after.slots == [1.0, 1.02]
    assert broken.slots == [1.0] and broken.failed == ["internal_error"]


def test_leg_may_be_removed_twice() -> None:
    pacer = Pacer(clock=lambda: 0.0)
    sender = Sender()
    pacer.add(sender)
    pacer.remove(sender)
    pacer.remove(sender)
    pacer._serve(1.0)
    assert not sender.slots


async def test_pacer_starts_and_stops_with_and_without_legs() -> None:
    pacer = Pacer()
    pacer.start()
    pacer.start()
    await pacer.stop()
    await pacer.stop()
