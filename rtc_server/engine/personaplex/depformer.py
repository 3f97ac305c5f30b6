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
from rtc_server.engine.personaplex.layers import Block, RmsNorm
from rtc_server.engine.personaplex.matrix import Matrix, activation_dtype
from rtc_server.engine.personaplex.weights import Weights

Chooser = Callable[[int, Tensor], Tensor]
"""(step, logits [n, card]) -> codes [n]."""


class Cell(NamedTuple):
    """Where one layer of one step writes its keys and values, and which ones it reads."""

    written: Tensor
    """[n, 2, heads, D]."""
    keys: Tensor
    """[n, heads, steps so far, D]."""
    values: Tensor


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
        shape = (len(layers), 2, rows, self._heads, steps, self._head_dim)
        self._kv = torch.zeros(shape, device=device, dtype=self._dtype)
        self._cells: dict[int, list[list[Cell]]] = {}
        self.bytes_per_row = self._kv.nbytes // rows
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
        cells = self._cells_of(len(hidden))
        before = embedding(text, self._text_table).to(self._dtype)
        codes, sampled, kept = [], [], []
        for step in range(self.steps):
            x = starts[step] + before
            for block, cell in zip(self._blocks[step], cells[step], strict=True):
                x = block.close(self._attend(block.qkv(x), cell), x)
            logits = self._heads_out[step](x)
            sampled.append(choose(step, logits))
            codes.append(torch.where(givens[step], targets[step], sampled[step]))
            if step + 1 < self.steps:
                before = embedding(codes[step], self._code_tables[step]).to(self._dtype)
            if keep_logits:
                kept.append(logits)
        return torch.stack(codes, 1), torch.stack(sampled, 1), torch.stack(kept, 1) if keep_logits else None

    def _attend(self, qkv: Tensor, cell: Cell) -> Tensor:
        """qkv [n, 3 dim] -> [n, dim]."""
        qkv = qkv.view(-1, 3, self._heads, self._head_dim)
        cell.written.copy_(qkv[:, 1:])
        mixed = scaled_dot_product_attention(qkv[:, 0, :, None], cell.keys, cell.values)
        return mixed.view(-1, self._dim)

    def _cells_of(self, n: int) -> list[list[Cell]]:
        """[step][layer] for the first n rows. Kept: making a view takes as long as a small product."""
        if n not in self._cells:
            self._cells[n] = [
                [self._cell(layer, step, n) for layer in range(len(self._kv))] for step in range(self.steps)
            ]
        return self._cells[n]

    def _cell(self, layer: int, step: int, n: int) -> Cell:
        oldest = 1 if step == self._blind_step else 0
        keys, values = self._kv[layer, :, :n, :, oldest : step + 1].unbind(0)
        return Cell(self._kv[layer, :, :n, :, step].transpose(0, 1), keys, values)


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
