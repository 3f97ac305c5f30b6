"""Is everything there that a model has, in its shape, and nothing else? Asked before a byte is loaded. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rtc_server.engine.personaplex.header import ITEM_BYTES, StoredTensor
from rtc_server.engine.personaplex.names import Shape, find
from rtc_server.errors import CheckpointError

LISTED = 8
"""Names that an error lists of each kind."""
WEIGHT_TYPES = frozenset({"F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class Inventory:
    """Where each tensor that the model asks for is stored: its own name, another one, or a series of blocks of rows."""

    parts: Mapping[str, tuple[str, ...]]
    stored: Mapping[str, StoredTensor]

    def shape(self, name: str) -> Shape:
        """Of the whole, blocks stacked. Blocks that differ come out as a shape that no model has."""
        shapes = [self.stored[part].shape for part in self.parts[name]]
        if len(shapes) == 1:
            return shapes[0]
        if len(set(shapes)) > 1 or not shapes[0]:
            return ()
        return (len(shapes) * shapes[0][0], *shapes[0][1:])

    def nbytes(self, shapes: Mapping[str, Shape]) -> int:
        """What these tensors, or runs of their rows, take in the file."""
        return sum(math.prod(shape) * self._item_bytes(name) for name, shape in shapes.items())

    def _item_bytes(self, name: str) -> int:
        return ITEM_BYTES[self.stored[self.parts[name][0]].dtype]


def take_stock(path: Path, stored: Mapping[str, StoredTensor], expected: Mapping[str, Shape]) -> Inventory:
    """Compare the file (or index) `path`, which holds `stored`, with what the model has.

    Raises: CheckpointError that lists every kind of difference at once.
    """
    parts = {name: find(name, stored) for name in expected}
    inventory = Inventory({name: found for name, found in parts.items() if found}, stored)
    known = {part for found in parts.values() for part in found}
    wrong = {
        "missing": [name for name, found in parts.items() if not found],
        "unexpected": [name for name in stored if name not in known],
        "of another shape": [
            f"{name} {_text(inventory.shape(name))} instead of {_text(shape)}"
            for name, shape in expected.items()
            if parts[name] and inventory.shape(name) != shape
        ],
        "of a type that is not a weight's": [
            f"{part} {stored[part].dtype}"
            for part in stored
            if part in known and stored[part].dtype not in WEIGHT_TYPES
        ],
    }
    if any(wrong.values()):
        lists = "; ".join(f"{len(names)} {kind}: {_listed(names)}" for kind, names in wrong.items() if names)
        raise CheckpointError(
            f"{path.name} does not hold this model's tensors: {lists}",
            hint="is it the right file for this config.json, whole, and not quantized or of adapters?",
        )
    return inventory


def _listed(names: list[str]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"
