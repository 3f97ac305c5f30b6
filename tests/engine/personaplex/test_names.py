from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from rtc_server.engine.personaplex.config import MOSHIKO, PERSONAPLEX_7B, TINY_LM, LmConfig, MimiConfig
from rtc_server.engine.personaplex.names import (
    MAX_STEP_SETS,
    Shape,
    find,
    lm_shapes,
    mimi_shapes,
    stored_codebooks,
    stored_step_sets,
)
from tests.engine.personaplex.goldens import golden, lm_config, readme


@cache
def published() -> dict[str, dict[str, list[int]]]:
    """Every tensor of the published checkpoints, as the reference's modules have them."""
    content: dict[str, dict[str, list[int]]] = json.loads(
        (Path(__file__).parents[2] / "data" / "checkpoint_keys.json").read_text()
    )
    return content


def as_shapes(tensors: dict[str, list[int]]) -> dict[str, Shape]:
    return {name: tuple(shape) for name, shape in tensors.items()}


@pytest.mark.parametrize(
    ("name", "config", "tensors"),
    [("personaplex_lm_dep16", PERSONAPLEX_7B.lm, 475), ("moshiko_lm_dep8", MOSHIKO.lm, 355)],
)
def test_the_language_models_tensors_are_those_of_the_published_checkpoint(
    name: str, config: LmConfig, tensors: int
) -> None:
    assert lm_shapes(config) == as_shapes(published()[name])
    assert len(lm_shapes(config)) == tensors


def test_the_codecs_tensors_are_those_of_the_published_file() -> None:
    assert mimi_shapes(MimiConfig()) == as_shapes(published()["mimi"])


@pytest.mark.parametrize(("file", "config"), [("lm_tiny", "lm"), ("session_lm_tiny", "slm"), ("moshiko_lm_tiny", "mk")])
def test_other_sizes_of_the_language_model_follow_from_its_settings(file: str, config: str) -> None:
    assert lm_shapes(lm_config(config)) == {name: tuple(tensor.shape) for name, tensor in golden(file).items()}


def test_other_sizes_of_the_codec_follow_from_its_settings() -> None:
    config = MimiConfig.from_json(readme()["configs"]["mimi"], personaplex=True)
    assert mimi_shapes(config) == {name: tuple(tensor.shape) for name, tensor in golden("mimi_tiny").items()}


def test_a_name_is_found_as_it_is() -> None:
    name = "transformer.layers.0.self_attn.in_proj_weight"
    assert find(name, {name}) == (name,)
    assert find(name, {"text_emb.weight"}) == ()


def test_a_stacked_projection_is_found_in_blocks_up_to_the_first_gap() -> None:
    prefix = "depformer.layers.1.self_attn"
    stored = {
        f"{prefix}.{series}.{index}.weight" for series in ("in_projs", "out_projs") for index in (0, 1, 2, 10, 11)
    }
    assert find(f"{prefix}.in_proj_weight", stored) == tuple(f"{prefix}.in_projs.{index}.weight" for index in range(3))
    assert find(f"{prefix}.out_proj.weight", stored) == tuple(
        f"{prefix}.out_projs.{index}.weight" for index in range(3)
    )


def test_blocks_beyond_nine_keep_their_order() -> None:
    stored = {f"x.self_attn.in_projs.{index}.weight" for index in range(MAX_STEP_SETS)}
    assert find("x.self_attn.in_proj_weight", stored)[9:12] == tuple(
        f"x.self_attn.in_projs.{index}.weight" for index in (9, 10, 11)
    )


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("a.self_attn.in_proj_weight", "a.self_attn.in_proj.weight"),
        ("a.self_attn.out_proj.weight", "a.self_attn.out_proj"),
        ("q._codebook._initialized", "q._codebook.inited"),
        ("q._codebook.cluster_usage", "q._codebook.cluster_size"),
        ("q._codebook.embedding_sum", "q._codebook.embed_sum"),
        ("q._codebook.embedding_sum", "q._codebook.embed_avg"),
    ],
)
def test_other_names_of_the_same_tensor_are_known(name: str, other: str) -> None:
    assert find(name, {other}) == (other,)


def test_step_sets_and_codebooks_are_counted_by_their_highest_number() -> None:
    assert stored_step_sets(lm_shapes(PERSONAPLEX_7B.lm)) == 16
    assert stored_step_sets(lm_shapes(MOSHIKO.lm)) == 8
    assert stored_codebooks(mimi_shapes(MimiConfig())) == 32
    with_a_gap = set(lm_shapes(TINY_LM)) - {"linears.3.weight"}
    assert stored_step_sets(with_a_gap) == 16
    assert stored_step_sets({"linears.4000000.weight"}) == MAX_STEP_SETS
    assert stored_step_sets({"something.else"}) == 0
