from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rtc_server.engine.personaplex.config import MOSHIKO, PERSONAPLEX_7B, TINY_LM, LmConfig, MimiConfig
from rtc_server.engine.personaplex.header import StoredTensor
from rtc_server.engine.personaplex.names import lm_shapes, mimi_shapes
from rtc_server.engine.personaplex.settings import model_config, read_config
from rtc_server.errors import CheckpointError
from tests.engine.personaplex.goldens import readme


def stored(config: LmConfig | MimiConfig) -> dict[str, StoredTensor]:
    shapes = lm_shapes(config) if isinstance(config, LmConfig) else mimi_shapes(config)
    return {name: StoredTensor(Path("x"), "F32", shape, 0) for name, shape in shapes.items()}


LM_16, LM_8, MIMI = stored(PERSONAPLEX_7B.lm), stored(MOSHIKO.lm), stored(MimiConfig())


def tiny(**changes: Any) -> dict[str, Any]:
    return {**readme()["configs"]["lm"], "mimi": readme()["configs"]["mimi"], **changes}


TINY_MIMI = stored(MimiConfig.from_json(readme()["configs"]["mimi"], personaplex=True))


def test_a_published_checkpoint_needs_no_settings() -> None:
    assert model_config({}, LM_16, MIMI, has_voices=True) == PERSONAPLEX_7B
    assert model_config({}, LM_8, MIMI, has_voices=False) == MOSHIKO


def test_what_cannot_be_seen_in_tensors_can_be_said() -> None:
    """PersonaPlex without the step sets that nobody needs has the tensors of Moshi."""
    config = model_config({"model_type": "personaplex"}, LM_8, MIMI, has_voices=False)
    assert config.personaplex and config.lm.drop_oldest and config.mimi.drop_oldest
    assert config.lm.depformer_steps == 8
    assert model_config({}, LM_8, MIMI, has_voices=True).personaplex
    assert not model_config({"model_type": "moshi"}, LM_16, MIMI, has_voices=True).personaplex


def test_the_references_settings_are_taken() -> None:
    config = model_config(tiny(), stored(TINY_LM), TINY_MIMI, has_voices=False)
    assert config.lm == TINY_LM
    assert config.mimi == MimiConfig.from_json(readme()["configs"]["mimi"], personaplex=True)


def test_the_file_says_how_many_step_sets_and_codebooks_there_are() -> None:
    quantizer = {"dimension": 16, "n_q": 8, "bins": 2048}
    eight = MimiConfig.from_json({**readme()["configs"]["mimi"], "quantizer": quantizer}, personaplex=True)
    lm = stored(LmConfig.from_json({**readme()["configs"]["lm"], "dep_q": 8}, personaplex=True))
    config = model_config(tiny(), lm, stored(eight), has_voices=True)
    assert (config.lm.depformer_steps, config.mimi.stored_codebooks) == (8, 8)


def test_a_model_of_unknown_size_asks_for_what_tensors_do_not_tell() -> None:
    with pytest.raises(CheckpointError) as caught:
        model_config({}, stored(TINY_LM), MIMI, has_voices=True)
    assert "layers 3, depformer_layers 2, dim 64, text_card 300, card 256" in caught.value.message
    assert "heads and context cannot be read from tensors" in caught.value.hint
    assert '"num_heads"' in caught.value.hint


def test_a_codec_of_unknown_size_asks_for_its_settings() -> None:
    with pytest.raises(CheckpointError, match=r"a codec of this size is unknown \(layers 2, filters 4") as caught:
        model_config({}, LM_16, TINY_MIMI, has_voices=True)
    assert '"mimi"' in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "hibiki"}, "model_type 'hibiki' is none of personaplex, moshi"),
        ({"norm": "layer_norm"}, "norm 'layer_norm' is not what this engine runs"),
        ({"n_q": 32}, "n_q 32 is not"),
        ({"delays": [0] * 17}, "delays"),
        ({"num_heads": 7}, "7 heads do not share the language model's width of 64 evenly"),
        ({"depformer_num_heads": 0}, "0 heads do not share the depformer's"),
        ({"num_heads": "many"}, "value of the wrong kind"),
        ({"dim": None}, "value of the wrong kind"),
        ({"context": 1}, "a context of 1 holds no conversation"),
        ({"mimi": {}}, "has no 'seanet'"),
        ({"mimi": 5}, "value of the wrong kind"),
    ],
)
def test_settings_that_cannot_be_run_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        model_config(tiny(**changes), stored(TINY_LM), TINY_MIMI, has_voices=True)
    assert message in caught.value.message


def test_a_setting_that_is_missing_is_named() -> None:
    settings = tiny()
    del settings["num_heads"]
    with pytest.raises(CheckpointError, match=r"config\.json has no 'num_heads'"):
        model_config(settings, stored(TINY_LM), TINY_MIMI, has_voices=True)


def test_ratios_that_make_another_frame_rate_are_refused() -> None:
    mimi = json.loads(json.dumps(readme()["configs"]["mimi"]))
    mimi["seanet"]["ratios"] = [8, 6, 5, 3]
    with pytest.raises(CheckpointError, match="do not multiply to 960"):
        model_config(tiny(mimi=mimi), stored(TINY_LM), TINY_MIMI, has_voices=True)


def test_a_folder_without_settings_has_none(tmp_path: Path) -> None:
    assert read_config(tmp_path) == {}
    (tmp_path / "config.json").write_text("")
    assert read_config(tmp_path) == {}


@pytest.mark.parametrize("content", ["{", "[]", "null", '"moshi"', "[" * 100_000])
def test_settings_that_are_no_json_object_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config\.json is not"):
        read_config(tmp_path)
