"""What both transformers are made of: a norm whose scale may be folded away, and a block with gated feed-forward."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import silu

from rtc_server.engine.personaplex.matrix import Matrix

EPS = 1e-8
"""Inside the root."""


class RmsNorm:
    """x / sqrt(mean x^2 + eps) * scale, worked out in float32.

    The scale of a float32 checkpoint is folded into the matrices that follow. In 16 bits that would round each weight a
    second time, so there it stays here.
    """

    def __init__(self, scale: Tensor) -> None:
        dim = scale.numel()
        self._scale = scale.flatten()
        self._unit_scale = self._scale.float() * dim**0.5
        self._shortest = torch.full((), (EPS * dim) ** 0.5, device=scale.device)
        self._folded = scale.dtype == torch.float32
        self.nbytes = self._scale.nbytes + self._unit_scale.nbytes

    def fold_into(self, weight: Tensor) -> Tensor:
        """The weight [out, in] of a matrix that is applied to this norm; consumed."""
        return weight.mul_(self._unit_scale) if self._folded else weight

    def __call__(self, x: Tensor) -> Tensor:
        """x [n, dim] of the activations' type -> the input of the matrices."""
        return self._unit(x) if self._folded else self.whole(x)

    def whole(self, x: Tensor) -> Tensor:
        """With the scale, whether it is folded into matrices or not."""
        if x.dtype != torch.float32:
            return torch.rms_norm(x, self._scale.shape, self._scale, EPS)
        return self._unit(x).mul_(self._unit_scale)

    def _unit(self, x: Tensor) -> Tensor:
        """x / sqrt(|x|^2 + dim eps): three small calls, where torch's own norm takes ten on a CPU."""
        length: Tensor = torch.linalg.vector_norm(x, 2, -1, True)
        return x / length.hypot_(self._shortest)


class Gate(NamedTuple):
    """Memory for what lies between the two matrices of a feed-forward layer; all layers of a call take turns in it."""

    both: Tensor
    """[n, 2 hidden]."""
    a: Tensor
    b: Tensor

    @classmethod
    def over(cls, both: Tensor) -> Gate:
        return cls(both, *both.chunk(2, -1))


class Block:
    """x += out(attention(qkv(norm1 x))); x += gate_out(silu(a) * b), [a; b] = gate_in(norm2 x).

    Weights are consumed. qkv [3 dim, dim], out [dim, dim], gate_in [2 hidden, dim], gate_out [dim, hidden].
    """

    def __init__(
        self,
        norm1: RmsNorm,
        qkv: Tensor,
        out: Tensor,
        norm2: RmsNorm,
        gate_in: Tensor,
        gate_out: Tensor,
        *,
        rows: int,
        bits: int,
    ) -> None:
        self._norm1, self._norm2 = norm1, norm2
        self._qkv = Matrix(norm1.fold_into(qkv), rows, bits=bits)
        self._out = Matrix(out, rows, bits=bits)
        self._gate_in = Matrix(norm2.fold_into(gate_in), rows, bits=bits)
        self._gate_out = Matrix(gate_out, rows, bits=bits)
        self.nbytes = sum(matrix.nbytes for matrix in (self._qkv, self._out, self._gate_in, self._gate_out))

    def open(self, x: Tensor, qkv: Tensor) -> None:
        """x [n, dim] -> queries, keys and values, written to qkv [n, 3 dim]."""
        self._qkv(self._norm1(x), qkv)

    def close(self, mixed: Tensor, x: Tensor, gate: Gate) -> Tensor:
        """What attention made of them [n, dim], and x again -> the block's result [n, dim]."""
        x = self._out.add(mixed, x)
        self._gate_in(self._norm2(x), gate.both)
        return self._gate_out.add(silu(gate.a, inplace=True).mul_(gate.b), x)
