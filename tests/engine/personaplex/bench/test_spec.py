from pathlib import Path
from typing import Any

import pytest

from rtc_server.engine.personaplex.bench.spec import PRESETS, EngineBench
from rtc_server.errors import ConfigError


@pytest.mark.parametrize("preset", PRESETS)
def test_codec_and_language_model_of_a_preset_know_the_same_codes(preset: str) -> None:
    config = EngineBench(preset=preset).config
    assert config.lm.card == config.mimi.bins


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"preset": "huge"}, "--preset 'huge'"),
        ({"part": "ears"}, "--part 'ears'"),
        ({"dtype": "int8"}, "--dtype 'int8'"),
        ({"slots": ()}, "--slots"),
        ({"slots": (4, 0)}, "--slots 0"),
        ({"slots": (257,)}, "--slots 257"),
        ({"slots": (2, 16), "live": 3}, "--live 3 must be 1..2"),
        ({"fill": (0,)}, "--fill 0"),
        ({"fill": ()}, "--fill"),
        ({"threads": 0}, "--threads 0"),
        ({"depformer_steps": 7}, "--depformer-steps 7"),
        ({"ticks": 0}, "--ticks 0"),
        ({"peer": Path("python"), "part": "all"}, "--peer"),
    ],
)
def test_a_value_out_of_range_names_its_flag(values: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        EngineBench(**values)
