"""Tensors of a checkpoint by name, and where they come from is somebody else's matter.

Names are those of the published checkpoints (``transformer.layers.0.self_attn.in_proj_weight``, ...): see `names.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor


class Weights(Protocol):
    """A tensor leaves on the device and in the type that this source was made for, and no longer belongs to it: whoever
    takes it may change it, or keep it in another form."""

    def take(self, name: str, rows: slice | None = None) -> Tensor:
        """The tensor, or a run of its leading rows. Only what is asked for is read.

        Raises: KeyError for a name that the checkpoint does not have.
        """


class StateDict:
    """Weights that are in memory already."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        device: torch.device | str = "cpu",
        dtype: torch.dtype | None = None,
    ) -> None:
        self._tensors, self._device, self._dtype = tensors, device, dtype

    def take(self, name: str, rows: slice | None = None) -> Tensor:
        tensor = self._tensors[name]
        return tensor[rows if rows is not None else slice(None)].to(self._device, self._dtype, copy=True)
