"""The split residual quantizer: one semantic codebook, and a residual chain of acoustic ones beside it.

Both halves quantize the same latent, each through a projection of its own: the chain does not start from what the
semantic codebook left over.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEBOOKS, MimiConfig
from rtc_server.engine.personaplex.matrix import Matrix
from rtc_server.engine.personaplex.weights import Weights

MIN_USAGE = 1e-5
"""Codes that were hardly ever used in training are stored as small sums over even smaller counts."""


class Quantizer:
    """Latents [n, dim] <-> codes [n, 8] int64."""

    def __init__(self, weights: Weights, config: MimiConfig, *, rows: int) -> None:
        self._bins = config.bins
        names = ["rvq_first.vq.layers.0", *(f"rvq_rest.vq.layers.{index}" for index in range(CODEBOOKS - 1))]
        books = [_codebook(weights, f"quantizer.{name}._codebook") for name in names]
        self._table = torch.cat(books)  # [8 * bins, code_dim]
        self._first_entry = torch.arange(CODEBOOKS, device=self._table.device) * config.bins
        self._half_norms = [book.square().sum(1).mul_(0.5) for book in books]
        self._likeness = [Matrix(book, rows) for book in books]
        halves = ("quantizer.rvq_first", "quantizer.rvq_rest")
        project = [weights.take(f"{half}.input_proj.weight")[..., 0] for half in halves]
        restore = [weights.take(f"{half}.output_proj.weight")[..., 0] for half in halves]
        self._project = Matrix(torch.cat(project), rows)
        self._restore = Matrix(torch.cat(restore, 1), rows)

    @property
    def nbytes(self) -> int:
        matrices = (*self._likeness, self._project, self._restore)
        tensors = (*self._half_norms, self._table, self._first_entry)
        return sum(matrix.nbytes for matrix in matrices) + sum(tensor.nbytes for tensor in tensors)

    def encode(self, latent: Tensor) -> Tensor:
        """latent [n, dim] -> codes [n, 8]; the lowest of equally near codes."""
        semantic, left = self._project(latent).chunk(2, 1)
        codes = [self._nearest(0, semantic)]
        for book in range(1, CODEBOOKS):
            codes.append(self._nearest(book, left))
            if book < CODEBOOKS - 1:
                left = left - self._table[codes[-1] + book * self._bins]
        return torch.stack(codes, 1)

    def decode(self, codes: Tensor) -> Tensor:
        """codes [n, 8] in [0, bins) -> latent [n, dim]."""
        entries = self._table[codes + self._first_entry]  # [n, 8, code_dim]
        return self._restore(torch.cat([entries[:, 0], entries[:, 1:].sum(1)], 1))

    def _nearest(self, book: int, x: Tensor) -> Tensor:
        """Of |x - e|^2 = |x|^2 - 2 x.e + |e|^2 the first term is the same for all entries e."""
        return (self._half_norms[book] - self._likeness[book](x)).argmin(1)


def _codebook(weights: Weights, prefix: str) -> Tensor:
    """[bins, code_dim]: the mean of the vectors that chose each code in training."""
    usage = weights.take(f"{prefix}.cluster_usage").clamp_(min=MIN_USAGE)
    return weights.take(f"{prefix}.embedding_sum") / usage[:, None]
