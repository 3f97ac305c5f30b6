from __future__ import annotations

import math

import pytest
import torch

from rtc_server.engine.personaplex import layers
from rtc_server.engine.personaplex.layers import Block, Gate, RmsNorm


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1.0, 1e-4, 100.0])
def test_the_norm_is_the_reference_s_whatever_the_type_of_the_scale(dtype: torch.dtype, size: float) -> None:
    """At a size of 1e-4 the eps under the root counts."""
    torch.manual_seed(0)
    x, scale = size * torch.randn(3, 64), torch.rand(1, 1, 64).add(0.5).to(dtype)
    weight = torch.randn(10, 64)
    want = x * scale[0].float() / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-8)
    norm = RmsNorm(scale)
    torch.testing.assert_close(norm.whole(x), want)
    folded = norm.fold_into(weight.clone())
    torch.testing.assert_close(norm(x) @ folded.t(), want @ weight.t(), rtol=1e-5, atol=1e-5)


def test_sixteen_bit_activations_are_normed_in_float32() -> None:
    torch.manual_seed(0)
    x, scale = 200 * torch.randn(3, 64), torch.ones(1, 1, 64, dtype=torch.float16)
    got = RmsNorm(scale)(x.half())
    assert got.dtype == torch.float16
    want = x / torch.sqrt((x * x).mean(-1, keepdim=True))
    torch.testing.assert_close(got.float(), want, rtol=2e-3, atol=2e-3)


def test_sixteen_bit_weights_keep_their_norms_apart() -> None:
    weight = torch.ones(2, 64, dtype=torch.bfloat16)
    assert torch.equal(RmsNorm(torch.full((1, 1, 64), 1.37, dtype=torch.bfloat16)).fold_into(weight), torch.ones(2, 64))


def test_eps_is_under_the_root() -> None:
    zero = torch.zeros(1, 64)
    assert (RmsNorm(torch.ones(1, 1, 64)).whole(zero) == 0).all()
    assert pytest.approx(1e-8) == layers.EPS
    tiny = torch.full((1, 64), 1e-4)
    assert RmsNorm(torch.ones(1, 1, 64)).whole(tiny)[0, 0].item() == pytest.approx(1 / math.sqrt(2), rel=1e-5)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("bits", [16, 8])
def test_a_block_is_what_its_formula_says(rows: int, bits: int) -> None:
    """One position per row, so attention would give back its values; eight bits within their rounding."""
    torch.manual_seed(0)
    dim, hidden = 32, 64
    qkv, out = torch.randn(3 * dim, dim) / 8, torch.randn(dim, dim) / 8
    gate_in, gate_out = torch.randn(2 * hidden, dim) / 8, torch.randn(dim, hidden) / 8
    scale1, scale2 = torch.rand(dim) + 0.5, torch.rand(dim) + 0.5
    weights = [weight.clone() for weight in (qkv, out, gate_in, gate_out)]
    norms = RmsNorm(scale1.view(1, 1, -1)), RmsNorm(scale2.view(1, 1, -1))
    block = Block(norms[0], weights[0], weights[1], norms[1], weights[2], weights[3], rows=rows, bits=bits)

    def norm(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-8) * scale

    x = torch.randn(rows, dim)
    heads = norm(x, scale1) @ qkv.t()
    mixed = heads[:, 2 * dim :]
    y = x + mixed @ out.t()
    a, b = (norm(y, scale2) @ gate_in.t()).chunk(2, -1)
    want = y + (torch.nn.functional.silu(a) * b) @ gate_out.t()

    memory = torch.zeros(rows, 5 * dim)
    block.open(x, memory[:, dim : 4 * dim])
    got = block.close(memory[:, 3 * dim : 4 * dim], x, Gate.over(torch.empty(rows, 2 * hidden)))
    tolerance = 1e-5 if bits == 16 else 0.05
    torch.testing.assert_close(memory[:, dim : 4 * dim], heads, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
