"""Prompts that were worked through once: the next caller with that voice and persona waits less than a tick."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class CachedPrompt:
    """The start of a conversation, independent of its row, seed and sampling."""

    positions: int
    keys: Tensor
    """What `KvRing.save` gave for so many positions."""
    hidden: Tensor
    """[1, dim]: of the last of them."""

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.hidden.nbytes


class PromptCache:
    """Bounded by bytes; the prompt that nobody asked for longest goes first. One too large is not kept."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._entries: OrderedDict[Hashable, CachedPrompt] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> CachedPrompt | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, entry: CachedPrompt) -> None:
        if entry.nbytes > self._capacity_bytes:
            return
        if (old := self._entries.pop(key, None)) is not None:
            self.nbytes -= old.nbytes
        self._entries[key] = entry
        self.nbytes += entry.nbytes
        while self.nbytes > self._capacity_bytes:
            _, dropped = self._entries.popitem(last=False)
            self.nbytes -= dropped.nbytes
