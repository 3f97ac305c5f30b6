"""Rotary positions: each pair (2i, 2i+1) of a query or key turns by an angle that grows with its position.

Only differences of positions matter, so a key in a ring cache stays valid for as long as it lies there.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Rotary:
    """Pairs are interleaved, as in the published checkpoints; nothing is permuted.

    Angles are worked out in float64: in float32 they would be off by 0.004 an hour into a call.
    """

    def __init__(self, head_dim: int, max_period: float, device: torch.device | str) -> None:
        exponent = torch.arange(0, head_dim, 2, device=device, dtype=torch.float64) / -head_dim
        self._frequency = max_period**exponent
        self._one = torch.ones((), device=device, dtype=torch.float64)

    def at(self, positions: Tensor) -> Tensor:
        """positions [...] int64 -> unit complex64 [..., head_dim / 2]."""
        angle = positions[..., None] * self._frequency
        return torch.polar(self._one.expand_as(angle), angle).to(torch.complex64)


def pairs_of(x: Tensor) -> Tensor:
    """A view of x [..., D] for `rotate`: complex [..., D / 2] of float32. There are no complex numbers of 2 x 16 bits
    that could be multiplied, so of those [..., D / 2, 2]."""
    pairs = x.view(*x.shape[:-1], -1, 2)
    return torch.view_as_complex(pairs) if x.dtype == torch.float32 else pairs


def rotate(pairs: Tensor, rotation: Tensor) -> None:
    """Rotate what `pairs_of` gave, in place and in float32; rotation complex [..., D / 2] is broadcast over it."""
    if pairs.is_complex():
        pairs.mul_(rotation)
    else:
        pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()).mul_(rotation)))
