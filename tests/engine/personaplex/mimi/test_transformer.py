"""Against the same layers written out plainly, over the whole past, with the window as the reference defines it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rtc_server.engine.personaplex.config import MimiConfig
from rtc_server.engine.personaplex.mimi.state import Batch
from rtc_server.engine.personaplex.mimi.transformer import Transformer
from rtc_server.engine.personaplex.weights import StateDict
from tests.engine.personaplex.goldens import largest_error

DIM, HEADS, LAYERS, STEPS, CONTEXT = 16, 2, 2, 2, 8
PREFIX = "t.transformer.layers"


@pytest.fixture
def stored() -> dict[str, Tensor]:
    torch.manual_seed(0)
    shapes = {
        "self_attn.in_proj_weight": (3 * DIM, DIM), "self_attn.out_proj.weight": (DIM, DIM),
        "linear1.weight": (4 * DIM, DIM), "linear2.weight": (DIM, 4 * DIM),
        "norm1.weight": (DIM,), "norm1.bias": (DIM,), "norm2.weight": (DIM,), "norm2.bias": (DIM,),
        "layer_scale_1.scale": (DIM,), "layer_scale_2.scale": (DIM,),
    }  # fmt: skip
    return {
        f"{PREFIX}.{layer}.{name}": torch.randn(shape) / shape[-1] ** 0.5
        for layer in range(LAYERS)
        for name, shape in shapes.items()
    }


def turned(x: Tensor, position: int) -> Tensor:
    """x [H, D] with each pair of neighbours turned."""
    angle = position * 10_000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    even, odd = x[:, ::2], x[:, 1::2]
    pairs = (even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos())
    return torch.stack(pairs, -1).flatten(1)


def plainly(stored: dict[str, Tensor], calls: list[Tensor], *, drop_oldest: bool) -> list[Tensor]:
    """calls of x [steps, dim] of one row."""
    past: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(LAYERS)]
    results = []
    for call in calls:
        x = call
        for layer in range(LAYERS):
            w = {name.removeprefix(f"{PREFIX}.{layer}."): tensor for name, tensor in stored.items()}
            y = functional.layer_norm(x, (DIM,), w["norm1.weight"], w["norm1.bias"])
            query, key, value = (y @ w["self_attn.in_proj_weight"].t()).view(-1, 3, HEADS, DIM // HEADS).unbind(1)
            start = len(past[layer])
            past[layer] += [(turned(key[step], start + step), value[step]) for step in range(STEPS)]
            end = start + STEPS
            mixed = []
            for step in range(STEPS):
                position = start + step
                seen = [
                    p
                    for p in range(end)
                    if p <= position
                    and position - p < CONTEXT
                    and (p > end - CONTEXT or not drop_oldest)
                    and p >= end - CONTEXT
                ]
                keys = torch.stack([past[layer][p][0] for p in seen], 1)
                values = torch.stack([past[layer][p][1] for p in seen], 1)
                scores = (keys @ turned(query[step], position)[..., None])[..., 0] / (DIM // HEADS) ** 0.5
                mixed.append((scores.softmax(-1)[:, None] @ values).flatten())
            x = x + w["layer_scale_1.scale"] * (torch.stack(mixed) @ w["self_attn.out_proj.weight"].t())
            y = functional.layer_norm(x, (DIM,), w["norm2.weight"], w["norm2.bias"])
            y = functional.gelu(y @ w["linear1.weight"].t()) @ w["linear2.weight"].t()
            x = x + w["layer_scale_2.scale"] * y
        results.append(x)
    return results


@pytest.mark.parametrize("drop_oldest", [True, False])
def test_each_step_sees_the_window_of_its_call(stored: dict[str, Tensor], drop_oldest: bool) -> None:
    config = MimiConfig(dim=DIM, heads=HEADS, layers=LAYERS, context=CONTEXT, drop_oldest=drop_oldest)
    transformer = Transformer(StateDict(stored), "t", config, rows=2, steps=STEPS, device="cpu")
    calls = [torch.randn(STEPS, DIM) for _ in range(9)]
    batch = Batch(slice(1, 2), torch.ones(1, dtype=torch.bool))
    for index, want in enumerate(plainly(stored, calls, drop_oldest=drop_oldest)):
        keys = min(transformer.ring.capacity, STEPS * (index + 1))
        assert largest_error(transformer(calls[index][None], batch, keys)[0], want) < 1e-5, index
