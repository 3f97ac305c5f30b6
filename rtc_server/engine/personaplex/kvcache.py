"""Ring caches of keys and values: one position per row, so that rows join, wait and leave at any age.

Position p of a row lies in ring row p mod capacity. What an earlier conversation left in ring rows that are not filled
yet is never seen: the length alone says what counts, so a row is reset by setting it to zero.

With a pinned prompt of P positions these stay in ring rows 0..P-1 for ever, and the others take turns in the rest. All
that fits is seen, so a query sees as many keys as without. The pinned keys would drift away from the queries beyond any
distance that the model has met, so `repin` turns them back to sit right before the window, again and again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_server.engine.personaplex.attention import PrefillPlan, StepPlan
from rtc_server.engine.personaplex.kvstore import FloatKv, Int8Kv, KvStore
from rtc_server.engine.personaplex.rotary import Rotary, pairs_of, rotate

REPIN_POSITIONS = 16
"""Pinned keys move in steps of so many positions: each costs a pass over the keys of the prompt."""
UNPINNED_SHARE = 0.25
"""Of the window, at least, is left to the conversation beside a pinned prompt."""


class KvRing:
    """Keys and values of all layers of one transformer.

    `drop_oldest`: a full ring of the reference hides its oldest position, so the window is `capacity` - 1. `bits` 8
    keeps int8 numbers instead of `dtype`, the type of queries and keys.

    Attributes:
        capacity: positions that a query sees at most, itself included; also the most that is worth passing as `keys`.
        length: [rows] int64, the positions that a row has taken so far, also those that have left the window.
        bytes_per_row: device memory of one row.
        pin_limit: positions of the longest prompt that can be pinned.
    """

    def __init__(
        self,
        layers: int,
        rows: int,
        heads: int,
        head_dim: int,
        capacity: int,
        *,
        drop_oldest: bool,
        max_period: float,
        device: torch.device | str,
        dtype: torch.dtype,
        bits: int = 16,
    ) -> None:
        self.layers, self.rows, self.dtype = layers, rows, dtype
        self.capacity = capacity - 1 if drop_oldest else capacity
        self.pin_limit = self.capacity - int(UNPINNED_SHARE * self.capacity)
        ring_rows = self.capacity + 1
        shape = (layers, 2, rows, heads, ring_rows, head_dim)
        self.store: KvStore = (Int8Kv if bits == 8 else FloatKv)(shape, device, dtype)
        self.length = torch.zeros(rows, dtype=torch.int64, device=device)
        self.pinned = torch.zeros(rows, dtype=torch.int64, device=device)
        self.rotary = Rotary(head_dim, max_period, device)
        self.slots = torch.arange(self.capacity, device=device)
        lines = torch.arange(2 * rows * heads, device=device).view(2, rows, heads).transpose(0, 1) * ring_rows
        # [rows, 1, 3, H]: where a head's ring rows begin, for queries (see `StepPlan`), keys and values.
        self.lines = torch.cat([lines[:, :1], lines], 1)[:, None]
        self.is_kept = torch.tensor([False, True, True], device=device)[:, None]
        state_bytes = self.store.nbytes + self.length.nbytes + self.pinned.nbytes + self.lines.nbytes
        self.bytes_per_row = state_bytes // rows
        self._prompts: list[Tensor | None] = [None] * rows
        self._shifts = [0] * rows

    # ---- calls -------------------------------------------------------------------------------------------------------

    def step_plan(
        self, steps: int, keys: int, active: Tensor, rows: slice | None = None, *, full: bool = False
    ) -> StepPlan:
        """For a call in which each row takes `steps` positions, at most `capacity`. As in the reference the oldest
        position that a query sees is counted from the end of the call.

        `keys` ring rows are read: no less than any active row fills after the call. active [n] bool: the others write
        where nobody reads, and what they get means nothing. `rows` (default: the first n) must be n rows. `full`: every
        active row fills all `keys` ring rows, so for one step nothing has to be masked.
        """
        rows = rows if rows is not None else slice(0, len(active))
        return StepPlan(self, steps, keys, active, rows, full=full)

    def prefill_plan(self, row: int, start: int, steps: int) -> PrefillPlan:
        """For one pass over positions [start, start + steps) of a row that is not pinned and has taken those before."""
        return PrefillPlan(self, row, start, steps)

    def advance(self, steps: int, active: Tensor, rows: slice | None = None) -> None:
        """After a call: active [n] rows have taken `steps` positions more."""
        self.length[rows if rows is not None else slice(0, len(active))].add_(active, alpha=steps)

    # ---- rows --------------------------------------------------------------------------------------------------------

    def set_length(self, row: int, positions: int) -> None:
        self.length[row] = positions

    def reset(self, row: int) -> None:
        """An empty row, not pinned."""
        self.length[row] = 0
        self.pin(row, None)

    def scrub(self, row: int) -> None:
        """Zero the memory of a row that may hold NaN, which no mask can hide."""
        self.store.scrub(row)

    def save(self, row: int, positions: int) -> Tensor:
        """The first positions of a row that has not wrapped yet: [layers, 2, heads, positions, ...], exact.

        Raises: ValueError for more than `capacity`.
        """
        self._check_fits(positions)
        return self.store.save(row, 0, positions)

    def load(self, row: int, saved: Tensor) -> None:
        """The first positions of a row from what `save` gave; the length is set by `set_length`."""
        self.store.load(row, 0, saved)

    def copy(self, source: int, target: int, start: int, stop: int) -> None:
        """Positions [start, stop) of one row into another that is to become the same; those that have left the ring by
        `stop` are passed over. Pinned positions and the length come with `copy_state`."""
        first = self.pinned_positions(source)
        around = self.capacity - first
        start = max(start, first, stop - around)
        while start < stop:
            slot = first + (start - first) % around
            count = min(stop - start, self.capacity - slot)
            self.store.load(target, slot, self.store.save(source, slot, slot + count))
            start += count

    def copy_state(self, source: int, target: int) -> None:
        """Whatever `copy` leaves out: after it the target row goes on exactly as the source row would."""
        self.length[target] = self.length[source]
        self.pinned[target] = self.pinned[source]
        self._prompts[target], self._shifts[target] = self._prompts[source], self._shifts[source]
        if (positions := self.pinned_positions(source)) > 0:
            self.store.load(target, 0, self.store.save(source, 0, positions))

    # ---- pinned prompts ----------------------------------------------------------------------------------------------

    def pinned_positions(self, row: int) -> int:
        prompt = self._prompts[row]
        return 0 if prompt is None else prompt.shape[-2]

    def pin(self, row: int, saved: Tensor | None) -> None:
        """Keep the first positions of a row visible for ever; `saved` is what `save` gave for them, and is kept, not
        copied. None unpins. To be called while the row has taken no more than `capacity` positions.

        Raises: ValueError for more positions than `pin_limit`.
        """
        positions = 0 if saved is None else saved.shape[-2]
        if positions > self.pin_limit:
            raise ValueError(f"a prompt of {positions} positions cannot be pinned; the limit is {self.pin_limit}")
        self._prompts[row], self._shifts[row] = (saved if positions else None), 0
        self.pinned[row] = positions

    def repin(self, row: int, position: int) -> bool:
        """Before the call in which a row takes `position`: bring its pinned keys up to the window, if they have fallen
        behind. Eager; to be called for each call of a pinned row. True if there was something to do.

        The distance to the newest query never gets larger than without pinning; to that end the last few pinned keys
        share their places with the oldest of the window, less than `REPIN_POSITIONS` of them.
        """
        prompt = self._prompts[row]
        behind = position + 1 - self.capacity
        shift = max(0, -(-behind // REPIN_POSITIONS) * REPIN_POSITIONS)
        if prompt is None or shift == self._shifts[row]:
            return False
        # From the saved keys each time: turning the turned ones would add up their rounding.
        rotation = self.rotary.at(torch.full((), shift, device=self.length.device))
        for layer in range(self.layers):
            keys = self.store.keys_of(prompt, layer)
            rotate(pairs_of(keys), rotation)
            self.store.put_keys(layer, row, keys)
        self._shifts[row] = shift
        return True

    def _check_fits(self, positions: int) -> None:
        if positions > self.capacity:
            raise ValueError(f"{positions} positions do not fit into a ring of {self.capacity}")
