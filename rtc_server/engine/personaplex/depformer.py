"""The depth transformer: after each position of the temporal one, a small causal pass over the codebooks of the next.

Every step has matrices of its own, there are no positions, and nothing survives the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding, scaled_dot_product_attention

from rtc_server.engine.personaplex.config import LmConfig
from rtc_server.engine.personaplex.layers import Block, Gate, RmsNorm
from rtc_server.engine.personaplex.matrix import Matrix, activation_dtype
from rtc_server.engine.personaplex.weights import Weights

Chooser = Callable[[int, Tensor], Tensor]
"""(step, logits [n, card]) -> codes [n]."""


class Cell(NamedTuple):
    """Where one layer of one step writes its queries, keys and values, and those that it reads."""

    qkv: Tensor
    """[n, 3 dim]."""
    query: Tensor
    """[n, heads, 1, D]."""
    keys: Tensor
    """[n, heads, steps so far, D]."""
    values: Tensor


class Memory(NamedTuple):
    """What a call of n rows works in. Kept for each n: making a view takes as long as a small product."""

    cells: list[list[Cell]]
    """[step][layer]."""
    gate: Gate


class Depformer:
    """Eight steps are the agent's codebooks. The eight of the user are never needed to speak: user codes are given."""

    def __init__(self, weights: Weights, config: LmConfig, *, steps: int, rows: int, bits: int = 16) -> None:
        self.steps = steps
        self._dim, self._heads = config.depformer_dim, config.depformer_heads
        self._head_dim = self._dim // self._heads
        # The reference keeps all stored steps in a ring, and a full ring hides its oldest.
        self._blind_step = config.depformer_steps - 1 if config.drop_oldest else None
        self._from_hidden = Matrix(_stacked(weights, steps), rows, bits=bits)
        self._text_table = weights.take("depformer_text_emb.weight")
        self._code_tables = [weights.take(f"depformer_emb.{step}.weight") for step in range(steps - 1)]
        self._heads_out = [Matrix(weights.take(f"linears.{step}.weight"), rows, bits=bits) for step in range(steps)]
        layers = [_layer(weights, config, layer, steps, rows, bits) for layer in range(config.depformer_layers)]
        self._blocks = [list(blocks) for blocks in zip(*layers, strict=True)]  # [step][layer]
        device = self._text_table.device
        self._dtype = activation_dtype(device, self._text_table.dtype)
        shape = (len(layers), rows, steps, 3, self._heads, self._head_dim)
        self._qkv = torch.zeros(shape, device=device, dtype=self._dtype)
        self._gate = torch.zeros(rows, 2 * config.depformer_gating, device=device, dtype=self._dtype)
        self._memories: dict[int, Memory] = {}
        self.bytes_per_row = (self._qkv.nbytes + self._gate.nbytes) // rows
        matrices = [self._from_hidden, *self._heads_out, *(block for blocks in self._blocks for block in blocks)]
        tables = [self._text_table, *self._code_tables]
        self.nbytes = sum(matrix.nbytes for matrix in matrices) + sum(table.nbytes for table in tables)

    def run(
        self,
        hidden: Tensor,
        text: Tensor,
        choose: Chooser,
        target: Tensor,
        given: Tensor,
        *,
        keep_logits: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """hidden [n, dim], text [n]: of the next position; target [n, steps] are its codes where `given` [n, steps].

        Returns codes [n, steps], those that `choose` took for them [n, steps], and logits [n, steps, card] if kept.
        """
        starts = self._from_hidden(hidden).view(-1, self.steps, self._dim).unbind(1)
        targets, givens = target.unbind(1), given.unbind(1)
        memory = self._memory(len(hidden))
        before = self._embed(text, self._text_table)
        codes, sampled, kept = [], [], []
        for step in range(self.steps):
            x = starts[step] + before
            for block, cell in zip(self._blocks[step], memory.cells[step], strict=True):
                block.open(x, cell.qkv)
                mixed = scaled_dot_product_attention(cell.query, cell.keys, cell.values)
                x = block.close(mixed.reshape(-1, self._dim), x, memory.gate)
            logits = self._heads_out[step](x)
            sampled.append(choose(step, logits))
            codes.append(torch.where(givens[step], targets[step], sampled[step]))
            if step + 1 < self.steps:
                before = self._embed(codes[step], self._code_tables[step])
            if keep_logits:
                kept.append(logits)
        return torch.stack(codes, 1), torch.stack(sampled, 1), torch.stack(kept, 1) if keep_logits else None

    def _embed(self, tokens: Tensor, table: Tensor) -> Tensor:
        """[n] -> [n, dim]."""
        found = embedding(tokens, table)
        return found if found.dtype == self._dtype else found.to(self._dtype)

    def _memory(self, n: int) -> Memory:
        if n not in self._memories:
            layers = range(len(self._qkv))
            cells = [[self._cell(layer, step, n) for layer in layers] for step in range(self.steps)]
            self._memories[n] = Memory(cells, Gate.over(self._gate[:n]))
        return self._memories[n]

    def _cell(self, layer: int, step: int, n: int) -> Cell:
        oldest = 1 if step == self._blind_step else 0
        rows = self._qkv[layer, :n]  # [n, steps, 3, heads, D]
        query, keys, values = rows[:, oldest : step + 1].permute(2, 0, 3, 1, 4).unbind(0)
        return Cell(rows[:, step].view(n, -1), query[:, :, -1:], keys, values)


def _layer(weights: Weights, config: LmConfig, layer: int, steps: int, rows: int, bits: int) -> list[Block]:
    """The blocks of all steps; they share their norms."""
    prefix, dim = f"depformer.layers.{layer}", config.depformer_dim
    norm1 = RmsNorm(weights.take(f"{prefix}.norm1.alpha"))
    norm2 = RmsNorm(weights.take(f"{prefix}.norm2.alpha"))
    return [
        Block(
            norm1,
            weights.take(f"{prefix}.self_attn.in_proj_weight", slice(step * 3 * dim, (step + 1) * 3 * dim)),
            weights.take(f"{prefix}.self_attn.out_proj.weight", slice(step * dim, (step + 1) * dim)),
            norm2,
            weights.take(f"{prefix}.gating.{step}.linear_in.weight"),
            weights.take(f"{prefix}.gating.{step}.linear_out.weight"),
            rows=rows,
            bits=bits,
        )
        for step in range(steps)
    ]


def _stacked(weights: Weights, steps: int) -> Tensor:
    """What each step takes from the hidden state, as one matrix [steps * depformer dim, dim]."""
    return torch.cat([weights.take(f"depformer_in.{step}.weight") for step in range(steps)])
