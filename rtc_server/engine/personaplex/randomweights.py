"""Weights that nobody trained, for measurements: a model of any size without a file."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from rtc_server.engine.personaplex.names import Shape

_ABOUT_ONE = (".alpha", "norm1.weight", "norm2.weight")
_SPREAD = 0.1
_BRANCH_SCALE = 0.01
"""Of a codec transformer's branches, as they start before training."""


class RandomWeights:
    """Each tensor is made on the device when it is taken, and not held. See `weights.Weights`.

    Sizes are such that signals keep their size from layer to layer, so that no number is subnormal or infinite, which
    would change how long a product takes. The values depend on seed and name alone, and are those of float32 rounded to
    `dtype`; a run of rows has values of its own.
    """

    def __init__(
        self, shapes: Mapping[str, Shape], device: torch.device | str, dtype: torch.dtype, seed: int = 0
    ) -> None:
        self._shapes, self._device, self._dtype, self._seed = shapes, torch.device(device), dtype, seed

    def take(self, name: str, rows: slice | None = None) -> Tensor:
        shape = self._shapes[name]
        start, stop, _ = (rows or slice(None)).indices(shape[0])
        generator = torch.Generator(self._device).manual_seed(self._seed_of(name, start))
        size = (max(stop - start, 0), *shape[1:])
        normal = torch.randn(size, generator=generator, device=self._device)
        return _sized(name, shape, normal).to(self._dtype)

    def _seed_of(self, name: str, start: int) -> int:
        digest = hashlib.blake2b(f"{self._seed}/{name}/{start}".encode(), digest_size=7).digest()
        return int.from_bytes(digest, "big")


def _sized(name: str, shape: Shape, normal: Tensor) -> Tensor:
    """Normal numbers, in place, as a tensor of this name usually is."""
    if name.endswith("_initialized"):
        return normal.fill_(1.0)
    if name.endswith("cluster_usage"):
        return normal.abs_().add_(1.0)
    if name.endswith(_ABOUT_ONE):
        return normal.mul_(_SPREAD).add_(1.0)
    if name.endswith(".scale"):
        return normal.mul_(_SPREAD).add_(1.0).mul_(_BRANCH_SCALE)
    if name.endswith(".bias"):
        return normal.mul_(_SPREAD)
    return normal.mul_(1 / math.sqrt(math.prod(shape[1:])))
