"""The matrix products of a call, and nothing else of it: no call can be faster than these, in some form of the weights.

Shapes follow from the settings alone, so that work which the engine does too much shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEBOOKS, LmConfig, MimiConfig
from rtc_server.engine.personaplex.matrix import Matrix, activation_dtype
from rtc_server.engine.personaplex.names import FRAME_RATE_KERNEL, LAST_KERNEL, OUTER_KERNEL, RESIDUAL_KERNEL
from rtc_server.engine.stepper import FRAME_SAMPLES

CODEC_STEPS = 2
"""Of the codec's transformers in a frame."""
T = TypeVar("T")

MOST_BYTES = 2 << 30
"""Of weights: beyond these the same ones are read again, which no cache is large enough to notice."""


@dataclass(frozen=True, slots=True)
class Product:
    """x [n * steps, into] by a weight [out, into]."""

    out: int
    into: int
    steps: int = 1

    @property
    def numbers(self) -> int:
        return self.out * self.into


def lm_products(config: LmConfig, steps: int) -> list[Product]:
    """Of one position and `steps` steps of the depformer."""
    small = config.depformer_dim
    step = [*_block(small, config.depformer_gating) * config.depformer_layers, Product(config.card, small)]
    return [
        *_block(config.dim, config.gating) * config.layers,
        Product(config.text_card, config.dim),
        Product(steps * small, config.dim),
        *step * steps,
    ]


def _block(dim: int, gating: int) -> list[Product]:
    return [Product(3 * dim, dim), Product(dim, dim), Product(2 * gating, dim), Product(dim, gating)]


def mimi_products(config: MimiConfig) -> list[Product]:
    """Of encoding and decoding one frame; a convolution is a product over its windows."""
    return [*_encoder(config), *_quantizer(config), *_decoder(config)]


def _encoder(config: MimiConfig) -> Iterator[Product]:
    channels, steps = config.filters, FRAME_SAMPLES
    yield Product(channels, OUTER_KERNEL, steps)
    for ratio in reversed(config.ratios):
        yield from _residual_block(channels, steps)
        steps //= ratio
        yield Product(2 * channels, channels * 2 * ratio, steps)
        channels *= 2
    yield Product(config.dim, channels * LAST_KERNEL, steps)
    yield from _transformer(config)
    yield Product(config.dim, config.dim * FRAME_RATE_KERNEL)


def _decoder(config: MimiConfig) -> Iterator[Product]:
    yield from _transformer(config)
    channels, steps = config.filters << len(config.ratios), CODEC_STEPS
    yield Product(channels, config.dim * OUTER_KERNEL, steps)
    for ratio in config.ratios:
        channels //= 2
        yield Product(channels * ratio, 2 * 2 * channels, steps)  # windows of two steps
        steps *= ratio
        yield from _residual_block(channels, steps)
    yield Product(1, channels * LAST_KERNEL, steps)


def _residual_block(channels: int, steps: int) -> list[Product]:
    narrow = channels // 2
    return [Product(narrow, channels * RESIDUAL_KERNEL, steps), Product(channels, narrow, steps)]


def _transformer(config: MimiConfig) -> list[Product]:
    dim, wide = config.dim, config.feed_forward
    shapes = [(3 * dim, dim), (dim, dim), (wide, dim), (dim, wide)]
    return [Product(out, into, CODEC_STEPS) for out, into in shapes] * config.layers


def _quantizer(config: MimiConfig) -> list[Product]:
    both = 2 * config.code_dim
    return [
        Product(both, config.dim),
        *[Product(config.bins, config.code_dim)] * CODEBOOKS,
        Product(config.dim, both),
    ]


def weight_bytes(products: Sequence[Product], *, item_bytes: int, bits: int = 16) -> int:
    """That a call reads; with 8 bits each output has a scale of 16 bits."""
    if bits == 8:
        return sum(product.numbers + 2 * product.out for product in products)
    return sum(product.numbers for product in products) * item_bytes


class Bare:
    """``x @ W.T`` for each product, in the type of the weights."""

    def __init__(self, products: Sequence[Product], n: int, device: torch.device, dtype: torch.dtype) -> None:
        inputs = _inputs(products, n, device, dtype)
        weights = _spread(products, lambda product: _weight(product, device, dtype), dtype.itemsize)
        self._pairs = [(inputs[product], weight.t()) for product, weight in zip(products, weights, strict=True)]

    def __call__(self) -> None:
        for x, weight in self._pairs:
            torch.mm(x, weight)


class InForm:
    """The same products with the weights in the form that the engine keeps them in."""

    def __init__(
        self, products: Sequence[Product], n: int, slots: int, device: torch.device, dtype: torch.dtype, bits: int
    ) -> None:
        def matrix(product: Product) -> Matrix:
            rows = slots * product.steps
            return Matrix(_weight(product, device, dtype), rows, fewest=product.steps, bits=bits)

        inputs = _inputs(products, n, device, activation_dtype(device, dtype))
        matrices = _spread(products, matrix, dtype.itemsize)
        self._pairs = [(inputs[product], form) for product, form in zip(products, matrices, strict=True)]

    def __call__(self) -> None:
        for x, matrix in self._pairs:
            matrix(x)


def _spread(products: Sequence[Product], make: Callable[[Product], T], item_bytes: int) -> list[T]:
    """One of each product, until `MOST_BYTES` are spent; then those of the same shape by turns."""
    made: defaultdict[tuple[int, int], list[T]] = defaultdict(list)
    uses: defaultdict[tuple[int, int], int] = defaultdict(int)
    spent_bytes, chosen = 0, []
    for product in products:
        shape = (product.out, product.into)
        if spent_bytes < MOST_BYTES or not made[shape]:
            made[shape].append(make(product))
            spent_bytes += product.numbers * item_bytes
            chosen.append(made[shape][-1])
        else:
            chosen.append(made[shape][uses[shape] % len(made[shape])])
            uses[shape] += 1
    return chosen


def _weight(product: Product, device: torch.device, dtype: torch.dtype) -> Tensor:
    weight = torch.empty(product.out, product.into, device=device, dtype=dtype)
    return weight.uniform_(-1, 1).mul_(product.into**-0.5)


def _inputs(products: Sequence[Product], n: int, device: torch.device, dtype: torch.dtype) -> dict[Product, Tensor]:
    return {product: torch.randn(n * product.steps, product.into, device=device).to(dtype) for product in products}
