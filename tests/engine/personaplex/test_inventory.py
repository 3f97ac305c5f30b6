from __future__ import annotations

from pathlib import Path

import pytest

from rtc_server.engine.personaplex.config import TINY_LM
from rtc_server.engine.personaplex.header import StoredTensor
from rtc_server.engine.personaplex.inventory import LISTED, take_stock
from rtc_server.engine.personaplex.names import Shape, lm_shapes
from rtc_server.errors import CheckpointError

FILE = Path("model.safetensors")
EXPECTED: dict[str, Shape] = {"a.self_attn.in_proj_weight": (12, 4), "a.norm1.alpha": (1, 1, 4)}


def stored(shapes: dict[str, Shape], dtype: str = "BF16") -> dict[str, StoredTensor]:
    return {name: StoredTensor(FILE, dtype, shape, 0) for name, shape in shapes.items()}


def test_what_is_whole_passes_and_tells_its_size() -> None:
    inventory = take_stock(FILE, stored(EXPECTED), EXPECTED)
    assert inventory.nbytes(EXPECTED) == 2 * (12 * 4 + 4)
    assert inventory.shape("a.self_attn.in_proj_weight") == (12, 4)


def test_blocks_are_taken_as_one() -> None:
    blocks = {f"a.self_attn.in_projs.{index}.weight": (6, 4) for index in range(2)}
    inventory = take_stock(FILE, stored({**blocks, "a.norm1.alpha": (1, 1, 4)}), EXPECTED)
    assert inventory.parts["a.self_attn.in_proj_weight"] == tuple(blocks)
    assert inventory.shape("a.self_attn.in_proj_weight") == (12, 4)


def test_every_kind_of_difference_is_in_the_one_error() -> None:
    shapes = lm_shapes(TINY_LM)
    found = dict(shapes)
    del found["out_norm.alpha"], found["transformer.layers.1.norm2.alpha"]
    found["text_emb.weight"] = (300, 64)
    found["lora.weight"] = (1,)
    tensors = stored(found)
    tensors["emb.0.weight"] = StoredTensor(FILE, "I8", shapes["emb.0.weight"], 0)
    with pytest.raises(CheckpointError) as caught:
        take_stock(FILE, tensors, shapes)
    assert caught.value.message == (
        "model.safetensors does not hold this model's tensors: "
        "2 missing: transformer.layers.1.norm2.alpha, out_norm.alpha; "
        "1 unexpected: lora.weight; "
        "1 of another shape: text_emb.weight [300, 64] instead of [301, 64]; "
        "1 of a type that is not a weight's: emb.0.weight I8"
    )


def test_a_long_list_ends_with_how_many_more() -> None:
    shapes = lm_shapes(TINY_LM)
    with pytest.raises(CheckpointError) as caught:
        take_stock(FILE, {}, shapes)
    assert f"{len(shapes)} missing: emb.0.weight, " in caught.value.message
    assert caught.value.message.endswith(f" and {len(shapes) - LISTED} more")


@pytest.mark.parametrize("second", [(6, 5), (7, 4), (6,), ()])
def test_blocks_that_do_not_fit_each_other_are_of_another_shape(second: Shape) -> None:
    blocks: dict[str, Shape] = {"a.self_attn.in_projs.0.weight": (6, 4), "a.self_attn.in_projs.1.weight": second}
    with pytest.raises(CheckpointError, match=r"1 of another shape: a\.self_attn\.in_proj_weight"):
        take_stock(FILE, stored({**blocks, "a.norm1.alpha": (1, 1, 4)}), EXPECTED)


def test_a_gap_in_a_series_shows() -> None:
    blocks: dict[str, Shape] = {f"a.self_attn.in_projs.{index}.weight": (4, 4) for index in (0, 2)}
    with pytest.raises(CheckpointError) as caught:
        take_stock(FILE, stored({**blocks, "a.norm1.alpha": (1, 1, 4)}), EXPECTED)
    assert "1 unexpected: a.self_attn.in_projs.2.weight" in caught.value.message
    assert "a.self_attn.in_proj_weight [4, 4] instead of [12, 4]" in caught.value.message
