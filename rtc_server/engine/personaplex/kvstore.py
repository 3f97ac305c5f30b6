"""The memory of a ring cache: keys and values of all layers and rows, as they are or as 8-bit integers.

Keys lie by head, [layer, key or value, row, head, ring row, D], so that attention reads each head in one run. The ring
has one row more than can be read: calls of inactive rows write there.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from rtc_server.engine.personaplex.matrix import INT8_MAX

KEY = 0
"""Beside it: 1, the values."""

Shape = tuple[int, int, int, int, int, int]
"""(layers, 2, rows, heads, ring rows, head dim)"""


class KvStore(Protocol):
    """Ring rows of one head are adjacent; `index` counts ring rows of one layer over [2, rows, heads, ring rows]. What
    is written to the one beyond the last that can be read may come in any number and order."""

    nbytes: int

    def write(self, layer: int, index: Tensor, kv: Tensor) -> None:
        """kv [N, D] in the order of index [N]."""

    def read(self, layer: int, rows: slice, keys: int) -> tuple[Tensor, Tensor]:
        """Keys and values [n, heads, keys, D] of the first ring rows; valid until the next `read`."""

    def rounded(self, kv: Tensor) -> Tensor:
        """What would be read if this had been written."""

    def save(self, row: int, start: int, stop: int) -> Tensor:
        """A copy of some ring rows of all layers, [layers, 2, heads, stop - start, bytes or values], exact."""

    def load(self, row: int, start: int, saved: Tensor) -> None:
        """The inverse of `save`."""

    def keys_of(self, saved: Tensor, layer: int) -> Tensor:
        """float32 keys [heads, n, D] of what `save` gave; a copy."""

    def put_keys(self, layer: int, row: int, keys: Tensor) -> None:
        """Replace the keys of the first ring rows by keys [heads, n, D] float32."""

    def scrub(self, row: int) -> None:
        """Zero all of a row: masked attention multiplies what it hides by zero, and 0 * NaN is NaN."""


class FloatKv:
    """In the type of the activations."""

    def __init__(self, shape: Shape, device: torch.device | str, dtype: torch.dtype) -> None:
        self._all = torch.zeros(shape, device=device, dtype=dtype)
        self._layers = list(self._all)
        self._flat = [layer.view(-1, shape[-1]) for layer in self._layers]
        self.nbytes = self._all.nbytes

    def write(self, layer: int, index: Tensor, kv: Tensor) -> None:
        self._flat[layer].index_copy_(0, index, kv)

    def read(self, layer: int, rows: slice, keys: int) -> tuple[Tensor, Tensor]:
        key, value = self._layers[layer][:, rows, :, :keys].unbind(0)
        return key, value

    def rounded(self, kv: Tensor) -> Tensor:
        return kv

    def save(self, row: int, start: int, stop: int) -> Tensor:
        return self._all[:, :, row, :, start:stop].clone()

    def load(self, row: int, start: int, saved: Tensor) -> None:
        self._all[:, :, row, :, start : start + saved.shape[-2]] = saved

    def keys_of(self, saved: Tensor, layer: int) -> Tensor:
        return saved[layer, KEY].to(self._all.device, torch.float32, copy=True)

    def put_keys(self, layer: int, row: int, keys: Tensor) -> None:
        self._layers[layer][KEY, row, :, : keys.shape[1]] = keys

    def scrub(self, row: int) -> None:
        self._all[:, :, row].zero_()


class Int8Kv:
    """int8 with one float32 scale per key and per value of each head; attention reads a copy in `dtype`.

    The copy is made in a scratch of one layer's size, so this saves memory, not time.
    """

    def __init__(self, shape: Shape, device: torch.device | str, dtype: torch.dtype) -> None:
        self._dim = shape[-1]
        self._all = torch.zeros(shape, device=device, dtype=torch.int8)
        self._scales = torch.zeros(*shape[:-1], 1, device=device, dtype=torch.float32)
        self._scratch = torch.zeros(shape[1:], device=device, dtype=dtype)
        self._flat = [layer.view(-1, self._dim) for layer in self._all]
        self._flat_scales = [layer.view(-1, 1) for layer in self._scales]
        self.nbytes = self._all.nbytes + self._scales.nbytes + self._scratch.nbytes

    def write(self, layer: int, index: Tensor, kv: Tensor) -> None:
        numbers, scales = quantize(kv)
        self._flat[layer].index_copy_(0, index, numbers)
        self._flat_scales[layer].index_copy_(0, index, scales)

    def read(self, layer: int, rows: slice, keys: int) -> tuple[Tensor, Tensor]:
        scratch = self._scratch[:, rows, :, :keys]
        scratch.copy_(self._all[layer, :, rows, :, :keys]).mul_(self._scales[layer, :, rows, :, :keys])
        key, value = scratch.unbind(0)
        return key, value

    def rounded(self, kv: Tensor) -> Tensor:
        numbers, scales = quantize(kv)
        return numbers.to(kv.dtype).mul_(scales)

    def save(self, row: int, start: int, stop: int) -> Tensor:
        part = (slice(None), slice(None), row, slice(None), slice(start, stop))
        return torch.cat([self._all[part], self._scales[part].view(torch.int8)], -1)

    def load(self, row: int, start: int, saved: Tensor) -> None:
        part = (slice(None), slice(None), row, slice(None), slice(start, start + saved.shape[-2]))
        self._all[part] = saved[..., : self._dim]
        self._scales[part] = saved[..., self._dim :].contiguous().view(torch.float32)

    def keys_of(self, saved: Tensor, layer: int) -> Tensor:
        keys = saved[layer, KEY].to(self._all.device)
        return keys[..., : self._dim] * keys[..., self._dim :].contiguous().view(torch.float32)

    def put_keys(self, layer: int, row: int, keys: Tensor) -> None:
        part = (layer, KEY, row, slice(None), slice(0, keys.shape[1]))
        self._all[part], self._scales[part] = quantize(keys)

    def scrub(self, row: int) -> None:
        for memory in (self._all[:, :, row], self._scales[:, :, row], self._scratch[:, row]):
            memory.zero_()


def quantize(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [..., D] -> int8 [..., D] and float32 scales [..., 1]; an error of at most half a scale."""
    x = x.float()
    scales = torch.linalg.vector_norm(x, float("inf"), -1, True).div_(INT8_MAX)
    return (x / scales.clamp(min=torch.finfo(torch.float32).tiny)).round_().to(torch.int8), scales
