"""Which row of device memory each slot has, so that the busy rows lie at the low end. Sans-IO, without torch.

A tick runs rows 0..n-1, with n a little above the highest live row. So a new slot gets the lowest free row, and when a
slot low down has gone, the highest one moves into the hole, a few positions a tick: see `Move`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def batch_size(rows: int, most: int) -> int:
    """The batch that holds `rows` rows: the next of 1, 2, 4, 8, ..., at most `most`."""
    return min(most, 1 << max(0, rows - 1).bit_length())


@dataclass(slots=True)
class Move:
    """A slot on its way to a lower row. It goes on speaking from its old one until the last position has been copied.

    Positions that were written after their turn come last: `copied` only grows, and the conversation, at one position a
    tick, is slower than the copy.
    """

    slot: int
    source: int
    target: int
    copied: int = 0
    """Positions [0, copied) are in the target row, or have left the ring."""

    def next_positions(self, written: int, capacity: int, most: int) -> tuple[int, int]:
        """[start, stop) of the next piece, of at most `most` positions; `written` positions lie in the source row."""
        start = max(self.copied, written - capacity)
        return start, min(written, start + most)


class RowTable:
    """Slots to rows, one to one."""

    def __init__(self, rows: int) -> None:
        self._row: dict[int, int] = {}
        self._free = set(range(rows))

    def __getitem__(self, slot: int) -> int:
        return self._row[slot]

    def take(self, slot: int) -> int:
        """The lowest free row, for a slot that has none."""
        row = min(self._free)
        self._free.remove(row)
        self._row[slot] = row
        return row

    def give_back(self, slot: int) -> int | None:
        """The row that the slot had, which is free now."""
        row = self._row.pop(slot, None)
        if row is not None:
            self._free.add(row)
        return row

    def plan_move(self, movable: Iterable[int]) -> Move | None:
        """The move of the highest of these slots into the lowest free row, if the batch gets smaller in the end. The
        target row is taken."""
        top = max(movable, key=self._row.__getitem__, default=None)
        if top is None:
            return None
        source = self._row[top]
        holes = sum(row < source for row in self._free)
        most = len(self._row) + len(self._free)
        if batch_size(source + 1, most) <= batch_size(source + 1 - holes, most):
            return None
        target = min(self._free)
        self._free.remove(target)
        return Move(top, source, target)

    def finish(self, move: Move) -> None:
        """The slot lives in its new row; the old one is free."""
        self._row[move.slot] = move.target
        self._free.add(move.source)

    def cancel(self, move: Move) -> None:
        """The slot goes while it moves: only its target row is given back."""
        self._free.add(move.target)
