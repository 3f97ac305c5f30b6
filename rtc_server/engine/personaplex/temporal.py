"""The temporal transformer: 17 tokens of a position -> hidden state -> text logits."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from rtc_server.engine.personaplex.config import TOKEN_ROWS, LmConfig
from rtc_server.engine.personaplex.layers import Block, Gate, RmsNorm
from rtc_server.engine.personaplex.matrix import Matrix, activation_dtype
from rtc_server.engine.personaplex.weights import Weights


class AttentionPlan(Protocol):
    """How the positions of a call see those before: `StepPlan` or `PrefillPlan`."""

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """[n, T, 3, H, D] -> [n, T, H * D]."""


class Temporal:
    """Activations are [n, dim] for n positions, of one row or of many: the plan knows whose they are."""

    def __init__(self, weights: Weights, config: LmConfig, *, rows: int, bits: int = 16) -> None:
        self._heads, self._gating = config.heads, config.gating
        self._table, self._first = _tables(weights, config)
        self._blocks = [_block(weights, f"transformer.layers.{i}", rows, bits) for i in range(config.layers)]
        self._out_norm = RmsNorm(weights.take("out_norm.alpha"))
        self._text_head = Matrix(weights.take("text_linear.weight"), rows, bits=bits)
        self.dtype = activation_dtype(self._table.device, self._table.dtype)
        self.nbytes = self._table.nbytes + self._text_head.nbytes + sum(block.nbytes for block in self._blocks)

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens [n, 17] -> the sum of their embeddings [n, dim]; a negative token adds nothing."""
        nothing = self._table.shape[0] - 1
        index = torch.where(tokens < 0, nothing, tokens + self._first)
        return embedding_bag(index, self._table, mode="sum").to(self.dtype)

    def hidden(self, x: Tensor, plan: AttentionPlan, rows: int) -> Tensor:
        """x [rows * T, dim], T positions of each row -> hidden states [rows * T, dim]."""
        count, dim = x.shape
        qkv = x.new_empty(count, 3 * dim)
        by_head = qkv.view(rows, -1, 3, self._heads, dim // self._heads)
        gate = Gate.over(x.new_empty(count, 2 * self._gating))
        for layer, block in enumerate(self._blocks):
            block.open(x, qkv)
            x = block.close(plan.attend(layer, by_head).reshape(count, dim), x, gate)
        return self._out_norm.whole(x)

    def text_logits(self, hidden: Tensor) -> Tensor:
        """[n, dim] -> [n, text card]."""
        return self._text_head(hidden)


def _block(weights: Weights, prefix: str, rows: int, bits: int) -> Block:
    return Block(
        RmsNorm(weights.take(f"{prefix}.norm1.alpha")),
        weights.take(f"{prefix}.self_attn.in_proj_weight"),
        weights.take(f"{prefix}.self_attn.out_proj.weight"),
        RmsNorm(weights.take(f"{prefix}.norm2.alpha")),
        weights.take(f"{prefix}.gating.linear_in.weight"),
        weights.take(f"{prefix}.gating.linear_out.weight"),
        rows=rows,
        bits=bits,
    )


def _tables(weights: Weights, config: LmConfig) -> tuple[Tensor, Tensor]:
    """All embedding tables as one, the last row zero, and where that of each token row begins [17]."""
    sizes = [size + 1 for size in config.initial_tokens]
    names = ["text_emb.weight", *(f"emb.{i}.weight" for i in range(TOKEN_ROWS - 1))]
    part = weights.take(names[0])
    table = part.new_zeros(sum(sizes) + 1, config.dim)
    starts = [sum(sizes[:i]) for i in range(TOKEN_ROWS)]
    for name, start, size in zip(names, starts, sizes, strict=True):
        table[start : start + size] = part if name == names[0] else weights.take(name)
    return table, torch.tensor(starts, device=table.device)
