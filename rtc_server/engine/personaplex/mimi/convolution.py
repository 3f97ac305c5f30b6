"""Causal convolutions over a stream, as matrix products over the window of each output step.

With samples as [n, steps, channels] a window is one run of memory. For few output steps the windows are gathered and
multiplied by one matrix. For many, gathering would cost more than it saves: a window is a few blocks of `stride` steps,
and each block is the same one for all windows but for a shift, so there is a product per block and nothing is moved.

A transposed convolution whose kernel is twice its stride is an ordinary one as well: over windows of two steps, with
stride times as many outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rtc_server.engine.personaplex.matrix import Matrix
from rtc_server.engine.personaplex.mimi.state import Batch, RowState
from rtc_server.engine.personaplex.weights import Weights

GATHERED_STEPS = 64
"""More output steps are not worth gathering their windows, which moves every sample kernel / stride times."""
BLOCK_WIDTH = 64
"""Numbers in a block of `stride` steps; products with less are too thin."""


class Convolution:
    """x [n, steps, in] -> [n, steps * upsampling / stride, out]; a stream starts with zeros to its left.

    Args:
        weight: [out * upsampling, kernel, in]; with upsampling the output samples of one step lie one after the other.
        bias: [out * upsampling] or None.
        steps: input steps of a call; a multiple of `stride`.
        elu: apply ELU to the input.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        state: RowState,
        *,
        steps: int,
        stride: int = 1,
        upsampling: int = 1,
        elu: bool = False,
    ) -> None:
        _, kernel, self._channels = weight.shape
        self._stride, self._upsampling, self._elu = stride, upsampling, elu
        self._steps, self._out_steps = steps, steps // stride
        in_blocks = self._out_steps > GATHERED_STEPS and stride * self._channels >= BLOCK_WIDTH
        parts = weight.reshape(len(weight), kernel // stride if in_blocks else 1, -1).unbind(1)
        self._matrices = [Matrix(part, state.rows * self._out_steps, fewest=self._out_steps) for part in parts]
        self._window = kernel * self._channels
        self._bias = bias
        self._past = state.zeros(kernel - stride, self._channels)

    @property
    def nbytes(self) -> int:
        return sum(matrix.nbytes for matrix in self._matrices) + (self._bias.nbytes if self._bias is not None else 0)

    def __call__(self, x: Tensor, batch: Batch) -> Tensor:
        whole = self._with_past(x, batch)
        y = self._of_windows(whole) if len(self._matrices) == 1 else self._of_blocks(whole)
        if self._bias is not None:
            y.add_(self._bias)
        return y.view(len(x), self._out_steps * self._upsampling, -1)

    def _of_windows(self, whole: Tensor) -> Tensor:
        windows = whole.flatten(1).unfold(1, self._window, self._stride * self._channels)
        return self._matrices[0](windows.flatten(0, 1)).view(len(whole), self._out_steps, -1)

    def _of_blocks(self, whole: Tensor) -> Tensor:
        """The sum of a product for each block of a window, over all rows as if they were one stream: what reaches from
        one row into the next is computed and passed over."""
        blocks = whole.view(-1, self._stride * self._channels)
        count = len(blocks) - len(self._matrices) + 1
        y = self._matrices[0](blocks[:count])
        for index, matrix in enumerate(self._matrices[1:], 1):
            y = matrix.add(blocks[index : index + count], y)
        width = y.shape[1]
        return y.as_strided((len(whole), self._out_steps, width), (len(blocks) // len(whole) * width, width, 1))

    def _with_past(self, x: Tensor, batch: Batch) -> Tensor:
        """[n, past + steps, in]; the newest of these steps become the past of the next call."""
        length = self._past.shape[1]
        if not length:
            return elu(x, x.new_empty(x.shape)) if self._elu else x
        past = self._past[batch.rows]
        whole = x.new_empty(len(x), length + self._steps, self._channels)
        whole[:, :length] = self._first_past(past, x, batch)
        if self._elu:
            elu(x, whole[:, length:])
        else:
            whole[:, length:] = x
        batch.keep(past, whole[:, self._steps :])
        return whole

    def _first_past(self, past: Tensor, x: Tensor, batch: Batch) -> Tensor:
        return past


class ReplicatingConvolution(Convolution):
    """A stream starts with copies of its own first step to its left."""

    def __init__(self, weight: Tensor, bias: Tensor | None, state: RowState, *, steps: int, stride: int) -> None:
        super().__init__(weight, bias, state, steps=steps, stride=stride)
        self._started = state.zeros(1, 1, dtype=torch.bool)

    def _first_past(self, past: Tensor, x: Tensor, batch: Batch) -> Tensor:
        started = self._started[batch.rows]
        whole = torch.where(started, past, x[:, :1])
        started.logical_or_(batch.mask)
        return whole


class DepthwiseUpsampling:
    """x [n, 1, channels] -> [n, 2, channels]: a transposed convolution of each channel with itself, kernel 4."""

    def __init__(self, weight: Tensor, state: RowState) -> None:
        """weight [channels, 1, 4]"""
        self._now, self._later = weight[:, 0].t().contiguous().chunk(2)  # [2, channels] each
        self._past = state.zeros(1, weight.shape[0])

    @property
    def nbytes(self) -> int:
        return int(self._now.nbytes + self._later.nbytes)

    def __call__(self, x: Tensor, batch: Batch) -> Tensor:
        past = self._past[batch.rows]
        y = torch.addcmul(x * self._now, past, self._later)
        batch.keep(past, x)
        return y


def convolution_weights(weights: Weights, prefix: str) -> tuple[Tensor, Tensor]:
    """Weight [out, kernel, in] and bias [out] of a stored convolution, which is [out, in, kernel]."""
    return weights.take(f"{prefix}.weight").transpose(1, 2), weights.take(f"{prefix}.bias")


def transposed_weights(weights: Weights, prefix: str) -> tuple[Tensor, Tensor]:
    """Weight [stride * out, 2, in] and bias of a stored transposed convolution, which is [in, out, 2 * stride].

    Output sample j of a step comes from the step itself through kernel entry j, and from the step before through entry
    stride + j.
    """
    now, before = weights.take(f"{prefix}.weight").chunk(2, 2)
    weight = torch.stack([before, now]).permute(3, 2, 0, 1).flatten(0, 1)
    return weight, weights.take(f"{prefix}.bias").repeat(now.shape[2])


def elu(x: Tensor, out: Tensor) -> Tensor:
    """ELU into `out`. On a CPU four plain passes are twice as fast as the one that is exact in the last bit near 0."""
    if x.device.type != "cpu":
        elu_out: Tensor = torch.ops.aten.elu.out(x, out=out)
        return elu_out
    torch.clamp(x, max=0.0, out=out)
    return torch.maximum(x, out.exp_().sub_(1.0), out=out)
