"""The codec's transformers: one on each side of the quantizer, two steps of 40 ms a call."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from rtc_server.engine.personaplex.config import MimiConfig
from rtc_server.engine.personaplex.kvcache import KvRing
from rtc_server.engine.personaplex.matrix import Matrix
from rtc_server.engine.personaplex.mimi.state import Batch
from rtc_server.engine.personaplex.weights import Weights

NORM_EPS = 1e-5


class Norm:
    """LayerNorm over the last dimension."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        self._weight, self._bias = weights.take(f"{prefix}.weight"), weights.take(f"{prefix}.bias")
        self.nbytes = self._weight.nbytes + self._bias.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self._weight.shape, self._weight, self._bias, NORM_EPS)


class Layer:
    """Pre-norm attention and feed-forward. The scale of each branch is part of its last matrix."""

    def __init__(self, weights: Weights, prefix: str, *, rows: int, steps: int) -> None:
        def matrix(name: str, scale: str | None = None) -> Matrix:
            weight = weights.take(f"{prefix}.{name}")
            if scale is not None:
                weight *= weights.take(f"{prefix}.{scale}.scale")[:, None]
            return Matrix(weight, rows * steps, fewest=steps)

        self.norm1, self.norm2 = Norm(weights, f"{prefix}.norm1"), Norm(weights, f"{prefix}.norm2")
        self.qkv = matrix("self_attn.in_proj_weight")
        self.out = matrix("self_attn.out_proj.weight", "layer_scale_1")
        self.widen = matrix("linear1.weight")
        self.narrow = matrix("linear2.weight", "layer_scale_2")
        self.nbytes = sum(part.nbytes for part in (self.norm1, self.norm2, self.qkv, self.out, self.widen, self.narrow))


class Transformer:
    """x [n, steps, dim] -> [n, steps, dim], over a ring of the last ten seconds."""

    def __init__(
        self,
        weights: Weights,
        prefix: str,
        config: MimiConfig,
        *,
        rows: int,
        steps: int,
        device: torch.device | str,
    ) -> None:
        self._heads = config.heads
        self._layers = [
            Layer(weights, f"{prefix}.transformer.layers.{index}", rows=rows, steps=steps)
            for index in range(config.layers)
        ]
        self.ring = KvRing(
            config.layers,
            rows,
            config.heads,
            config.dim // config.heads,
            config.context,
            drop_oldest=config.drop_oldest,
            max_period=config.max_period,
            device=device,
            dtype=torch.float32,
        )

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self._layers)

    def __call__(self, x: Tensor, batch: Batch, keys: int) -> Tensor:
        """`keys`: ring rows that attention reads; no fewer than any active row has filled after the call."""
        n, steps, dim = x.shape
        plan = self.ring.step_plan(steps, keys, batch.active, batch.rows)
        x = x.flatten(0, 1)
        for index, layer in enumerate(self._layers):
            qkv = layer.qkv(layer.norm1(x)).view(n, steps, 3, self._heads, -1)
            x = layer.out.add(plan.attend(index, qkv).flatten(0, 1), x)
            x = layer.narrow.add(functional.gelu(layer.widen(layer.norm2(x))), x)
        self.ring.advance(steps, batch.active, batch.rows)
        return x.view(n, steps, dim)

    def reset(self, row: int) -> None:
        self.ring.reset(row)
        self.ring.scrub(row)

    def copy_row(self, source: int, target: int) -> None:
        # Whatever the length, these positions cover the whole ring.
        self.ring.copy(source, target, 0, self.ring.capacity)
        self.ring.copy_state(source, target)
