from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.engine.personaplex.rows import Move, RowTable, batch_size


@pytest.mark.parametrize(("rows", "most", "expected"), [(1, 16, 1), (2, 16, 2), (3, 16, 4), (9, 16, 16), (5, 6, 6)])
def test_a_batch_is_the_next_power_of_two_within_the_slots(rows: int, most: int, expected: int) -> None:
    assert batch_size(rows, most) == expected


def test_a_slot_gets_the_lowest_free_row() -> None:
    table = RowTable(4)
    assert [table.take(slot) for slot in (3, 1, 2)] == [0, 1, 2]
    table.give_back(1)
    assert table.take(0) == 1


def test_the_highest_slot_moves_into_a_hole_that_makes_the_batch_smaller() -> None:
    table = RowTable(8)
    for slot in range(5):
        table.take(slot)
    assert table.plan_move(range(5)) is None  # no hole
    table.give_back(1)
    move = table.plan_move([0, 2, 3, 4])
    assert move == Move(slot=4, source=4, target=1)
    table.finish(move)
    assert table[4] == 1
    assert table.take(7) == 4  # the row it came from


def test_no_move_where_the_batch_would_stay_as_large() -> None:
    table = RowTable(8)
    for slot in range(4):
        table.take(slot)
    table.give_back(0)
    assert table.plan_move([1, 2, 3]) is None


def test_the_target_of_a_move_is_nobody_elses_until_it_is_cancelled() -> None:
    table = RowTable(2)
    table.take(0), table.take(1)
    table.give_back(0)
    move = table.plan_move([1])
    assert move is not None
    with pytest.raises(ValueError):
        table.take(5)
    table.cancel(move)
    assert table.take(5) == 0


def test_a_move_copies_every_position_once_and_follows_the_conversation() -> None:
    move = Move(0, 3, 1)
    pieces = []
    for written in range(100, 140):
        start, stop = move.next_positions(written, capacity=1000, most=32)
        pieces.append((start, stop))
        move.copied = stop
        if stop == written:
            break
    assert pieces[0] == (0, 32)
    assert all(before[1] == after[0] for before, after in zip(pieces, pieces[1:], strict=False))
    assert pieces[-1][1] == 103


def test_a_move_leaves_out_what_has_left_the_ring() -> None:
    assert Move(0, 3, 1).next_positions(written=5000, capacity=3000, most=64) == (2000, 2064)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=60))
def test_rows_stay_one_to_one(steps: list[tuple[bool, int]]) -> None:
    table, held = RowTable(8), set()
    for opens, slot in steps:
        if opens and slot not in held:
            table.take(slot)
            held.add(slot)
        elif not opens and slot in held:
            table.give_back(slot)
            held.remove(slot)
        if (move := table.plan_move(held)) is not None:
            assert move.target < move.source
            table.finish(move)
        rows = [table[slot] for slot in held]
        assert len(set(rows)) == len(rows)
        assert all(0 <= row < 8 for row in rows)
