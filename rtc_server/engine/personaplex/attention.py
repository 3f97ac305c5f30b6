"""Attention over a ring cache, for one call of many rows and for many positions of one row.

A plan holds what the layers of a call share: which ring rows are written, how queries and keys are rotated, and what
each query sees. No tensor is read back to the host.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from rtc_server.engine.personaplex.kvstore import KvStore
from rtc_server.engine.personaplex.rotary import Rotary, pairs_of, rotate


class Ring(Protocol):
    """What a plan reads of a `KvRing`."""

    capacity: int
    dtype: torch.dtype
    store: KvStore
    rotary: Rotary
    length: Tensor
    """[rows] int64: positions so far."""
    pinned: Tensor
    """[rows] int64: of the prompt, kept for ever."""
    slots: Tensor
    """[capacity] int64: 0, 1, 2, ..."""
    lines: Tensor
    """[rows, 1, 3, H] int64: where a head's ring rows begin, for queries, keys and values."""
    is_kept: Tensor
    """[3, 1] bool: keys and values are, queries are not."""


class StepPlan:
    """Each row of the call takes `steps` positions; see `KvRing.step_plan`."""

    def __init__(self, ring: Ring, steps: int, keys: int, active: Tensor, rows: slice, *, full: bool) -> None:
        self._store, self._rows, self._keys = ring.store, rows, min(keys, ring.capacity)
        pinned = ring.pinned[rows, None]
        around = ring.capacity - pinned
        query = ring.length[rows, None] + ring.slots[:steps]  # [n, T]
        slot = pinned + torch.remainder(query - pinned, around)
        # Queries are written too, where nobody reads: so all that a layer computes is the source, as it lies.
        written = torch.where(active[:, None, None, None] & ring.is_kept, slot[..., None, None], ring.capacity)
        self._index = (ring.lines[rows] + written).flatten()  # [n * T * 3 * H]
        self._rotation = ring.rotary.at(query)[:, :, None, None]
        self._views: StepViews | None = None
        self._mask: Tensor | None = None
        if full and steps == 1:
            return
        slots = ring.slots[: self._keys]
        seen = (slots <= query[:, -1:])[:, None]  # [n, 1, keys]: a ring fills from its first row on
        if steps > 1:
            age = torch.remainder(slot[:, -1:] - slots, around)[:, None]  # 0: the newest position
            steps_after = steps - 1 - ring.slots[:steps, None]  # [T, 1]
            seen = seen & ((age >= steps_after) | (slots < pinned)[:, None])
        self._mask = additive(seen, ring.dtype)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """qkv [n, T, 3, H, D], rotated in place -> [n, T, H * D]. Keys and values are written before they are read.

        It is quickest if the layers of a call take turns in the same qkv: its views are then made once.
        """
        if self._views is None or self._views.whole is not qkv:
            self._views = StepViews.of(qkv)
        views = self._views
        rotate(views.turning, self._rotation)
        self._store.write(layer, self._index, views.lines)
        key, value = self._store.read(layer, self._rows, self._keys)
        mixed = scaled_dot_product_attention(views.query, key, value, self._mask)
        return mixed.transpose(1, 2).flatten(2)


class StepViews(NamedTuple):
    """Of one qkv [n, T, 3, H, D]."""

    whole: Tensor
    turning: Tensor
    """Pairs of queries and keys."""
    lines: Tensor
    """[n * T * 3 * H, D]."""
    query: Tensor
    """[n, H, T, D]."""

    @classmethod
    def of(cls, qkv: Tensor) -> StepViews:
        lines = qkv.view(-1, qkv.shape[-1])
        return cls(qkv, pairs_of(qkv[:, :, :2]), lines, qkv[:, :, 0].transpose(1, 2))


class PrefillPlan:
    """One row takes many positions in one pass, and each sees what it would have seen one call at a time.

    So a query's window ends at itself, not at the end of the pass, and the keys come from what the ring held before and
    from the pass itself: the ring can only keep the newest of them.
    """

    def __init__(self, ring: Ring, row: int, start: int, steps: int) -> None:
        window = ring.capacity
        self._store, self._row = ring.store, slice(row, row + 1)
        query = torch.arange(start, start + steps, device=ring.length.device)
        self._rotation = ring.rotary.at(query)[None, :, None, None]
        self._held = min(start, window)
        self._kept = min(steps, window)
        written = torch.remainder(query[-self._kept :], window)
        self._index = (ring.lines[row, :, 1:] + written[:, None, None]).flatten()  # [kept * 2 * H]
        self._causal = start == 0 and steps <= window
        self._mask: Tensor | None = None
        if not self._causal:
            held = start - 1 - torch.remainder(start - 1 - ring.slots[: self._held], window)
            key = torch.cat([held, query])
            age = query[:, None] - key
            self._mask = additive(((age >= 0) & (age < window))[None], ring.dtype)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """qkv [1, T, 3, H, D], rotated in place -> [1, T, H * D]."""
        rotate(pairs_of(qkv[:, :, :2]), self._rotation)
        key, value = self._store.rounded(qkv[:, :, 1:]).transpose(1, 3).unbind(2)  # [1, H, T, D] each
        if self._held:
            held = self._store.read(layer, self._row, self._held)
            key, value = torch.cat([held[0], key], 2), torch.cat([held[1], value], 2)
        query = qkv[:, :, 0].transpose(1, 2)
        mixed = scaled_dot_product_attention(query, key, value, self._mask, is_causal=self._causal)
        self._store.write(layer, self._index, qkv[0, -self._kept :, 1:].reshape(-1, qkv.shape[-1]))
        return mixed.transpose(1, 2).flatten(2)


def additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """seen [n, T, keys] bool -> [n, 1, T, keys], 0 or -inf: cheaper than flags that each layer converts anew."""
    return torch.zeros(seen.shape, device=seen.device, dtype=dtype).masked_fill_(~seen, float("-inf"))[:, None]
