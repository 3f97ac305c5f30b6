from __future__ import annotations

import torch

from rtc_server.engine.personaplex.mimi.state import Batch, RowState


def test_only_active_rows_are_changed() -> None:
    state = torch.arange(8.0).view(4, 1, 2)
    new = torch.full((2, 1, 2), float("nan"))
    new[1] = 9.0
    batch = Batch(slice(1, 3), torch.tensor([False, True]))
    batch.keep(state[batch.rows], new)
    assert state[:, 0].tolist() == [[0.0, 1.0], [2.0, 3.0], [9.0, 9.0], [6.0, 7.0]]


def test_a_reset_row_is_zero_and_a_copied_row_is_equal_whatever_was_there() -> None:
    state = RowState(3, "cpu")
    floats, flags = state.zeros(4, 2), state.zeros(1, dtype=torch.bool)
    floats.copy_(torch.arange(24.0).view(3, 4, 2))
    floats[0], flags[1] = float("nan"), True
    state.copy(1, 0)
    assert torch.equal(floats[0], floats[1]) and flags.flatten().tolist() == [True, True, False]
    floats[1, 0] = float("nan")
    state.reset(1)
    assert not floats[1].any() and flags.flatten().tolist() == [True, False, False]
    assert state.bytes_per_row == 4 * 2 * 4 + 1
