"""What int8 costs in exactness: errors against float32, of each product and of a whole call."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rtc_server.engine.personaplex.bench.products import Product, lm_products
from rtc_server.engine.personaplex.config import AGENT_ROWS, CODEBOOKS, TOKEN_ROWS, USER_ROWS, LmConfig
from rtc_server.engine.personaplex.depformer import Depformer
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.matrix import Matrix, activation_dtype
from rtc_server.engine.personaplex.names import lm_shapes
from rtc_server.engine.personaplex.randomweights import RandomWeights

INPUT_ROWS = 4
POSITIONS = 64
SEED = 2


@dataclass(frozen=True, slots=True)
class Error:
    """Of what, as a share of the reference's largest value, and of its root mean square."""

    name: str
    largest: float
    rms: float


def product_errors(config: LmConfig, *, steps: int, device: torch.device, dtype: torch.dtype) -> list[Error]:
    """Of each shape once, normal weights and inputs."""
    generator = torch.Generator(device).manual_seed(SEED)
    shapes = list(dict.fromkeys(lm_products(config, steps)))
    return [_product_error(shape, generator, dtype) for shape in shapes]


def _product_error(product: Product, generator: torch.Generator, dtype: torch.dtype) -> Error:
    device = generator.device
    weight = torch.randn(product.out, product.into, generator=generator, device=device).mul_(product.into**-0.5)
    x = torch.randn(INPUT_ROWS, product.into, generator=generator, device=device)
    expected = x @ weight.t()
    y = Matrix(weight.to(dtype, copy=True), INPUT_ROWS, bits=8)(x.to(activation_dtype(device, dtype)))
    return _error(f"{product.out} x {product.into}", y, expected)


def call_errors(
    config: LmConfig, *, weight_bits: int, kv_bits: int, device: torch.device, dtype: torch.dtype
) -> list[Error]:
    """Of a call after 64 positions of random tokens, and of a depformer that is given its codes; the same weights."""
    config = replace(config, context=2 * POSITIONS)
    exact = _call(config, 16, 16, device, torch.float32)
    rounded = _call(config, weight_bits, kv_bits, device, dtype)
    names = ("hidden state", "text logits", "code logits")
    return [_error(name, got, expected) for name, got, expected in zip(names, rounded, exact, strict=True)]


def _call(
    config: LmConfig, weight_bits: int, kv_bits: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    weights = RandomWeights(lm_shapes(config), device, dtype, SEED)
    lm = LanguageModel(weights, config, rows=1, device=device, dtype=dtype, weight_bits=weight_bits, kv_bits=kv_bits)
    generator = torch.Generator().manual_seed(SEED)
    tokens = torch.randint(min(config.card, config.text_card), (POSITIONS + 1, TOKEN_ROWS), generator=generator)
    hidden = torch.randn(1, config.dim, generator=generator)
    tokens, hidden = tokens.to(device), hidden.to(device, activation_dtype(device, dtype))
    lm.prefill(0, 0, lm.embed(tokens[:-1]))
    lm.tokens.load(0, POSITIONS, tokens[-1])
    active = torch.ones(1, dtype=torch.bool, device=device)
    step = lm.step(tokens[-1:, USER_ROWS], active, lm.keys_for((POSITIONS,)))
    del lm
    depformer = Depformer(weights, config, steps=CODEBOOKS, rows=1, bits=weight_bits)
    codes = tokens[-1:, AGENT_ROWS]
    *_, code_logits = depformer.run(
        hidden, tokens[-1:, 0], lambda step, _: codes[:, step], codes, torch.ones_like(codes).bool(), keep_logits=True
    )
    assert code_logits is not None
    return step.hidden, step.text_logits, code_logits


def _error(name: str, got: Tensor, expected: Tensor) -> Error:
    got, expected = got.double(), expected.double()
    off = got - expected
    return Error(
        name,
        float(off.abs().max() / expected.abs().max()),
        float(off.square().mean().sqrt() / expected.square().mean().sqrt()),
    )
