"""What the codec remembers from one frame to the next, for all rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one call."""

    rows: slice
    """Of all rows; n of them."""
    active: Tensor
    """[n] bool; the others stand still."""
    mask: Tensor = field(init=False)
    """`active` as [n, 1, 1]."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", self.active[:, None, None])

    def keep(self, state: Tensor, new: Tensor) -> None:
        """Put `new` into the active rows of `state`, both [n, steps, channels]; the others do not change in any bit."""
        torch.where(self.mask, new, state, out=state)


class RowState:
    """Tensors with one entry per row; all zero is the start of a stream."""

    def __init__(self, rows: int, device: torch.device | str) -> None:
        self.rows = rows
        self._device = device
        self._tensors: list[Tensor] = []

    def zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Another tensor [rows, *shape] that belongs to this state."""
        tensor = torch.zeros(self.rows, *shape, device=self._device, dtype=dtype)
        self._tensors.append(tensor)
        return tensor

    @property
    def bytes_per_row(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors) // self.rows

    def reset(self, row: int) -> None:
        for tensor in self._tensors:
            tensor[row].zero_()

    def copy(self, source: int, target: int) -> None:
        for tensor in self._tensors:
            tensor[target].copy_(tensor[source])
