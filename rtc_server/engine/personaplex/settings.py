"""Which model a folder holds: what its config.json says, and what its tensors say where that is silent. No torch."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rtc_server.engine.personaplex.config import (
    CODEBOOKS,
    CODEC_STEPS,
    DELAYS,
    MOSHIKO,
    PERSONAPLEX_7B,
    LmConfig,
    MimiConfig,
    ModelConfig,
)
from rtc_server.engine.personaplex.header import StoredTensor
from rtc_server.engine.personaplex.names import MAX_STEP_SETS, find, stored_codebooks, stored_step_sets
from rtc_server.engine.stepper import FRAME_SAMPLES
from rtc_server.errors import CheckpointError

Stored = Mapping[str, StoredTensor]
Config = TypeVar("Config", LmConfig, MimiConfig)

CONFIG_NAME = "config.json"
MAX_CONFIG_BYTES = 1_000_000
MODEL_TYPES = ("personaplex", "moshi")
HOP_SAMPLES = FRAME_SAMPLES // CODEC_STEPS
"""Of the codec's convolutions: 25 steps a second at 24 kHz."""
FIXED: Mapping[str, Any] = {
    "n_q": 2 * CODEBOOKS,
    "delays": list(DELAYS),
    "causal": True,
    "gating": "silu",
    "norm": "rms_norm_f32",
    "positional_embedding": "rope",
    "depformer_pos_emb": "none",
    "depformer_weights_per_step": True,
}
"""What the engine is built for. Some of it leaves no trace in the tensors, so it is compared where it is said."""


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of a folder; empty when it has none, as PersonaPlex was published.

    Raises: CheckpointError for a file that is not a JSON object.
    """
    path = folder / CONFIG_NAME
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            raw = json.loads(file.read(MAX_CONFIG_BYTES) or b"{}")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}", hint="check the file's permissions") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not JSON: {error}", hint="correct it, or take it away") from error
    if not isinstance(raw, dict):
        raise CheckpointError(f"{path} is not a JSON object", hint="correct it, or take it away")
    return raw


def model_config(raw: Mapping[str, Any], lm: Stored, mimi: Stored, *, has_voices: bool) -> ModelConfig:
    """The model that these settings and tensors are, step sets and codebooks as the files hold them.

    Raises: CheckpointError for settings that the engine cannot run, or that neither config.json nor the tensors tell.
    """
    personaplex = _is_personaplex(raw, lm, has_voices=has_voices)
    preset = PERSONAPLEX_7B if personaplex else MOSHIKO
    for key, value in FIXED.items():
        if raw.get(key, value) != value:
            raise CheckpointError(f"{CONFIG_NAME}: {key} {raw[key]!r} is not what this engine runs ({value!r})")
    if "dim" in raw:
        lm_config = _parsed(lambda: LmConfig.from_json(raw, personaplex=personaplex))
    else:
        lm_config = preset.lm
        _compare(
            "language model", lm_seen(lm), lm_config, 'the reference\'s settings ("dim", "num_heads", "context", ...)'
        )
    if "mimi" in raw:
        mimi_config = _parsed(lambda: MimiConfig.from_json(raw["mimi"], personaplex=personaplex))
    else:
        mimi_config = preset.mimi
        _compare("codec", mimi_seen(mimi), mimi_config, 'an object "mimi" with the settings of the codec')
    _check(lm_config, mimi_config)
    return ModelConfig(
        replace(lm_config, depformer_steps=stored_step_sets(lm) or lm_config.depformer_steps),
        replace(mimi_config, stored_codebooks=stored_codebooks(mimi)),
        personaplex=personaplex,
    )


def _is_personaplex(raw: Mapping[str, Any], lm: Stored, *, has_voices: bool) -> bool:
    """Moshi has the same tensors, but for step sets that it was published without, and no voices."""
    model_type = raw.get("model_type")
    if model_type is None:
        return has_voices or stored_step_sets(lm) == MAX_STEP_SETS
    if model_type not in MODEL_TYPES:
        raise CheckpointError(
            f"{CONFIG_NAME}: model_type {model_type!r} is none of {', '.join(MODEL_TYPES)}",
            hint="this engine runs PersonaPlex and Moshi; other models of their family are not conversations",
        )
    return bool(model_type == "personaplex")


def _parsed(parse: Callable[[], Config]) -> Config:
    try:
        return parse()
    except KeyError as error:
        raise CheckpointError(f"{CONFIG_NAME} has no {error.args[0]!r}", hint="add it") from error
    except (TypeError, ValueError, ArithmeticError) as error:
        raise CheckpointError(f"{CONFIG_NAME} has a value of the wrong kind: {error}", hint="correct it") from error


def lm_seen(stored: Stored) -> dict[str, int]:
    """Of `LmConfig`, what the tensors tell. They tell neither heads nor context."""
    seen: dict[str, int] = {"layers": _layers("transformer", stored), "depformer_layers": _layers("depformer", stored)}
    for setting, name, axis in (
        ("dim", "text_linear.weight", 1),
        ("text_card", "text_linear.weight", 0),
        ("card", "linears.0.weight", 0),
        ("gating", "transformer.layers.0.gating.linear_out.weight", 1),
        ("depformer_dim", "linears.0.weight", 1),
        ("depformer_gating", "depformer.layers.0.gating.0.linear_out.weight", 1),
    ):
        seen |= _size(setting, name, axis, stored)
    return seen


def mimi_seen(stored: Stored) -> dict[str, int]:
    """Of `MimiConfig`, what the tensors tell."""
    seen = {"layers": _layers("encoder_transformer.transformer", stored)}
    for setting, name, axis in (
        ("filters", "encoder.model.0.conv.conv.weight", 0),
        ("dim", "downsample.conv.conv.conv.weight", 0),
        ("feed_forward", "encoder_transformer.transformer.layers.0.linear1.weight", 0),
        ("bins", "quantizer.rvq_first.vq.layers.0._codebook.embedding_sum", 0),
        ("code_dim", "quantizer.rvq_first.vq.layers.0._codebook.embedding_sum", 1),
    ):
        seen |= _size(setting, name, axis, stored)
    return seen


def _size(setting: str, name: str, axis: int, stored: Stored) -> dict[str, int]:
    """Nothing for a tensor that is not there: what is missing is said when the tensors are compared one by one."""
    shapes = [stored[part].shape for part in find(name, stored)]
    return {setting: shapes[0][axis]} if shapes and len(shapes[0]) > axis else {}


def _layers(prefix: str, stored: Stored) -> int:
    pattern = re.compile(rf"{re.escape(prefix)}\.layers\.(\d+)\..*")
    return 1 + max((int(match[1]) for name in stored if (match := pattern.fullmatch(name))), default=-1)


def _compare(part: str, seen: Mapping[str, int], preset: LmConfig | MimiConfig, needed: str) -> None:
    other = {key: size for key, size in seen.items() if size != getattr(preset, key)}
    if other:
        sizes = ", ".join(f"{key} {size}" for key, size in seen.items())
        raise CheckpointError(
            f"a {part} of this size is unknown ({sizes}), and {CONFIG_NAME} does not describe it",
            hint=f"heads and context cannot be read from tensors: give {CONFIG_NAME} {needed}",
        )


def _check(lm: LmConfig, mimi: MimiConfig) -> None:
    """Settings that no tensor would contradict. Raises: CheckpointError."""
    for part, dim, heads in (
        ("language model", lm.dim, lm.heads),
        ("depformer", lm.depformer_dim, lm.depformer_heads),
        ("codec", mimi.dim, mimi.heads),
    ):
        if heads < 1 or dim % (2 * heads):
            raise CheckpointError(f"{CONFIG_NAME}: {heads} heads do not share the {part}'s width of {dim} evenly")
    if min(lm.context, mimi.context) < 2:
        raise CheckpointError(f"{CONFIG_NAME}: a context of {min(lm.context, mimi.context)} holds no conversation")
    if math.prod(mimi.ratios) != HOP_SAMPLES:
        raise CheckpointError(f"{CONFIG_NAME}: the codec's ratios {list(mimi.ratios)} do not multiply to {HOP_SAMPLES}")
