from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from rtc_server.engine.personaplex.bench import products
from rtc_server.engine.personaplex.bench.machine import Machine
from rtc_server.engine.personaplex.bench.products import (
    Bare,
    InForm,
    Product,
    lm_products,
    mimi_products,
    weight_bytes,
)
from rtc_server.engine.personaplex.bench.spec import EngineBench
from rtc_server.engine.personaplex.bench.subjects import CodecPart, LanguagePart
from rtc_server.engine.personaplex.config import MID_LM, PERSONAPLEX_7B
from rtc_server.engine.personaplex.matrix import Matrix

CPU = torch.device("cpu")
TINY = EngineBench(preset="tiny", buffer_bytes=1 << 20)

Shapes = Counter[tuple[int, int, int]]
"""(outputs, inputs, rows) of each product."""


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shapes]:
    """The products that the engine makes."""
    shapes: Shapes = Counter()
    call, add = Matrix.__call__, Matrix.add

    def recorded_call(self: Matrix, x: Tensor, out: Tensor | None = None) -> Tensor:
        y = call(self, x, out)
        shapes[y.shape[1], x.shape[1], len(x)] += 1
        return y

    def recorded_add(self: Matrix, x: Tensor, residual: Tensor) -> Tensor:
        y = add(self, x, residual)
        shapes[y.shape[1], x.shape[1], len(x)] += 1
        return y

    monkeypatch.setattr(Matrix, "__call__", recorded_call)
    monkeypatch.setattr(Matrix, "add", recorded_add)
    yield shapes


def of(listed: list[Product], n: int) -> Shapes:
    return Counter((product.out, product.into, n * product.steps) for product in listed)


@pytest.mark.parametrize("steps", [8, 16])
def test_the_language_model_makes_these_products_and_no_other(done: Shapes, steps: int) -> None:
    machine = Machine(replace(TINY, depformer_steps=steps))
    part = LanguagePart(machine.language_model(2), live=2, fill=5, device=CPU)
    done.clear()
    part.call()
    assert done == of(lm_products(machine.config.lm, steps), 2)


def test_a_narrow_codec_makes_these_products_and_no_other(done: Shapes) -> None:
    machine = Machine(TINY)
    part = CodecPart(machine.codec(2), slots=2, live=2, fill=1, device=CPU)
    done.clear()
    part.call()
    assert done == of(mimi_products(machine.config.mimi), 2)


def test_the_large_model_reads_what_its_design_says() -> None:
    read = weight_bytes(lm_products(PERSONAPLEX_7B.lm, 8), item_bytes=2)
    assert read == pytest.approx(13.42e9 + 1.33e9, rel=0.01)
    assert weight_bytes(lm_products(PERSONAPLEX_7B.lm, 8), item_bytes=2, bits=8) == pytest.approx(read / 2, rel=0.001)


def test_the_mid_size_codec_is_the_whole_one() -> None:
    assert weight_bytes(mimi_products(PERSONAPLEX_7B.mimi), item_bytes=4) == pytest.approx(0.34e9, rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bits", [16, 8])
def test_bounds_run_in_every_type(dtype: torch.dtype, bits: int) -> None:
    listed = lm_products(TINY.config.lm, 8)
    Bare(listed, 2, CPU, dtype)()
    InForm(listed, 2, 4, CPU, dtype, bits)()


def test_a_large_model_reads_the_same_weights_again(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [Product(8, 4)] * 5 + [Product(2, 4)]
    monkeypatch.setattr(products, "MOST_BYTES", 2 * 8 * 4 * 4)
    made: list[Product] = []

    def make(product: Product) -> int:
        made.append(product)
        return len(made)

    assert products._spread(listed, make, item_bytes=4) == [1, 2, 1, 2, 1, 3]
    assert made == [Product(8, 4), Product(8, 4), Product(2, 4)]


def test_mid_size_weights_are_all_different() -> None:
    assert weight_bytes(lm_products(MID_LM, 16), item_bytes=4) < products.MOST_BYTES
