"""A weight matrix, held in the one form that suits its device and its calls, and its product with a few rows.

With so few rows a product is as fast as its weight can be read, and how fast that is depends on how the weight lies in
memory: on one CPU core the forms differ by a factor of up to two. So the form is chosen when the weight is loaded; it
then serves every number of rows. The choice is a rule, not a race at start, so that results repeat.

What was measured (one core of a Sapphire Rapids Xeon, the shortest of 15 by turns; ms for all products of a call of the
mid-size model, 73 million weights):

====================  ======  ======  ======  ======
float32               1 row   2 rows  4 rows  8 rows
====================  ======  ======  ======  ======
as stored, [out, in]    19.8    21.5    37.4    46.3
transposed, [in, out]   16.4    25.3    32.6    41.7
packed by oneDNN        25.2    27.1    30.7    34.3
by the rule below       15.8    25.4    29.6    38.5
bfloat16, as stored     23.5    25.0    27.7    26.4
bfloat16, packed        17.0    17.6    18.0    18.7
int8                    11.7    13.2    17.1    28.4
====================  ======  ======  ======  ======

- float32 on a CPU lies transposed: best for one row, and one row must stay cheap however many the engine has room for.
  Only a very large matrix gains enough from packing at four rows (6.9 -> 5.7 ms) to pay for what it loses at one.
- Where every call has several rows, as in the codec with its two steps a frame, packing pays from four rows on; at two
  or three the weight stays as it is. From about 64 rows on all forms are equal.
- 16-bit weights on a CPU are packed; without oneDNN they stay as they are.
- A GPU reads any form alike.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import torch
from torch import Tensor

PACKING_ROWS = 4
"""A float32 matrix is packed for so many rows or more."""
EVEN_ROWS = 64
"""From here on a product is bound by arithmetic, not by reading the weight."""
VERY_LARGE = 2**23
"""Weights."""
INT8_MAX = 127
INT8_ROWS = 16
"""Up to here a product reads the int8 weight directly; more rows share one conversion of it."""
INT8_WIDTH = 32
"""torch reads over the end of int8 weights [out, in] whose `in` is not a multiple of its vectors."""


class Form(Enum):
    AS_STORED = "as stored"
    TRANSPOSED = "transposed"
    PACKED = "packed"


def activation_dtype(device: torch.device | str, dtype: torch.dtype) -> torch.dtype:
    """What flows between the matrices: float32 on a CPU whatever the weights are, the weights' type on a GPU."""
    return torch.float32 if torch.device(device).type == "cpu" else dtype


def form_of(weight: Tensor, rows: int, fewest: int = 1) -> Form:
    """For a weight [out, in] and calls of `fewest` to `rows` rows."""
    if weight.device.type != "cpu":
        return Form.AS_STORED
    if weight.dtype != torch.float32:
        return Form.PACKED if can_pack(weight.dtype) else Form.AS_STORED
    often_many = 1 < fewest < EVEN_ROWS or weight.numel() >= VERY_LARGE
    if rows >= PACKING_ROWS and often_many and can_pack(weight.dtype):
        return Form.PACKED
    return Form.AS_STORED if 1 < fewest < PACKING_ROWS else Form.TRANSPOSED


def can_pack(dtype: torch.dtype) -> bool:
    """oneDNN is there, knows the type on this CPU, and torch still has the names that its own compiler uses for it."""
    ops = torch.ops.mkldnn
    if not (hasattr(ops, "_reorder_linear_weight") and hasattr(ops, "_linear_pointwise")):
        return False
    if dtype == torch.bfloat16:
        return hasattr(ops, "_is_mkldnn_bf16_supported") and bool(ops._is_mkldnn_bf16_supported())
    return dtype == torch.float32


class Matrix:
    """``y = W x`` with W [out, in]. The weight is consumed: hand over a tensor that nobody else uses.

    Activations, results and residuals are of `activation_dtype`; 16-bit weights on a CPU round their input to 16 bits.

    Args:
        rows: the most that a call is expected to have; more work too.
        fewest: the least that a call has.
        bits: 8 keeps int8 numbers and one scale per output instead: an error of at most half a scale per weight.

    Attributes:
        nbytes: what a call reads.
    """

    def __init__(self, weight: Tensor, rows: int, *, fewest: int = 1, bits: int = 16) -> None:
        self._product = Int8Product(weight) if bits == 8 else _full_product(weight, form_of(weight, rows, fewest))
        self.nbytes = self._product.nbytes

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """[n, in] -> [n, out]; written to `out` if there is one, which may be a view of something larger."""
        return self._product(x, out)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        """residual [n, out] + W x."""
        return self._product.add(x, residual)


class Product(Protocol):
    """One form of a weight."""

    nbytes: int

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor: ...

    def add(self, x: Tensor, residual: Tensor) -> Tensor: ...


def _full_product(weight: Tensor, form: Form) -> Product:
    product: Product = PackedProduct(weight) if form is Form.PACKED else PlainProduct(weight, form)
    return product if activation_dtype(weight.device, weight.dtype) == weight.dtype else RoundedProduct(product, weight)


class PlainProduct:
    def __init__(self, weight: Tensor, form: Form) -> None:
        # Either way a view [in, out]; the form says along which of the two the memory runs.
        self._weight = weight.t().contiguous() if form is Form.TRANSPOSED else weight.contiguous().t()
        self.nbytes: int = weight.nbytes

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.mm(x, self._weight, out=out)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return torch.addmm(residual, x, self._weight)


class PackedProduct:
    """By oneDNN, in blocks as its product kernel reads them."""

    def __init__(self, weight: Tensor) -> None:
        self._weight: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKING_ROWS)
        self.nbytes: int = weight.nbytes

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, None, "none", [], "")
        return y if out is None else out.copy_(y)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self._weight, None, "add")
        return y


class RoundedProduct:
    """16-bit weights amid float32: the input is rounded, the sum is not."""

    def __init__(self, product: Product, weight: Tensor) -> None:
        self._product, self._dtype = product, weight.dtype
        self.nbytes = product.nbytes

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        y = self._product(x.to(self._dtype))
        return y.float() if out is None else out.copy_(y)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return residual + self._product(x.to(self._dtype))


class Int8Product:
    """int8 numbers and one scale per output.

    On a CPU torch's product reads them directly, fast only with bfloat16 around it: input and result are rounded to
    that. Its counterpart for GPUs gives each output to a single thread, so there the numbers are converted for every
    call, which is slower than 16-bit weights: on a GPU this saves memory, not time.
    """

    def __init__(self, weight: Tensor) -> None:
        self._dtype = torch.bfloat16 if weight.device.type == "cpu" else weight.dtype
        weight = weight.float()
        # The numbers are made with the scale as it is stored, rounded: its own error then costs nothing.
        self._scale = (weight.abs().amax(1) / INT8_MAX).clamp(min=torch.finfo(torch.float32).tiny).to(self._dtype)
        numbers = (weight / self._scale[:, None]).round_().clamp_(-INT8_MAX, INT8_MAX)
        self._weight = numbers.to(torch.int8)
        self._is_direct = weight.device.type == "cpu" and weight.shape[1] % INT8_WIDTH == 0
        self.nbytes: int = self._weight.nbytes + self._scale.nbytes

    def __call__(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        rounded = x.to(self._dtype)
        if self._is_direct and len(x) <= INT8_ROWS:
            y = torch._weight_int8pack_mm(rounded, self._weight, self._scale)
        else:
            weight = self._weight * self._scale[:, None]  # not the result: float16 could not hold it unscaled
            y = torch.mm(rounded, weight.t())
        return y.to(x.dtype) if out is None else out.copy_(y)

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return residual + self(x)
