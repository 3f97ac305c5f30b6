"""The golden tensors: what the reference implementations made of tiny random weights, in float32 on a CPU.

`readme()` explains every tensor. The reference of PersonaPlex runs one call later than this engine: its call c + 1
gives what our call c gives.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from rtc_server.engine.personaplex.config import AGENT_ROWS, TEXT_ROW, TOKEN_ROWS, LmConfig
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.sampling import GREEDY
from rtc_server.engine.personaplex.tokens import Forced
from rtc_server.engine.personaplex.weights import StateDict
from rtc_server.engine.stepper import Sampling

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
HIDDEN = 1e-4
"""Largest error of hidden states and text logits."""
CODE_LOGITS = 2e-4
"""Another order of additions alone makes half of it here."""


@cache
def golden(name: str) -> dict[str, Tensor]:
    """The tensors of ``<name>.safetensors``. Shared: not to be changed."""
    return load_file(GOLDEN / f"{name}.safetensors")


@cache
def readme() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDEN / "README.json").read_text())
    return content


def lm_config(name: str) -> LmConfig:
    """``lm`` and ``slm`` are PersonaPlex, ``mk`` is Moshi."""
    return LmConfig.from_json(readme()["configs"][name], personaplex=name != "mk")


def largest_error(got: Tensor, want: Tensor) -> float:
    assert got.shape == want.shape
    return float((got.float() - want.float()).abs().max())


def lm_model(
    name: str,
    *,
    rows: int = 1,
    depformer_steps: int = 8,
    sampling: Sampling = GREEDY,
    kv_bits: int = 16,
    weight_bits: int = 16,
) -> LanguageModel:
    """Of the weights of ``lm_tiny``, ``session_lm_tiny`` or ``moshiko_lm_tiny``; row r has the seed r."""
    configs = {"lm_tiny": "lm", "session_lm_tiny": "slm", "moshiko_lm_tiny": "mk"}
    lm = LanguageModel(
        StateDict(golden(name)),
        lm_config(configs[name]),
        rows=rows,
        device="cpu",
        dtype=torch.float32,
        depformer_steps=depformer_steps,
        weight_bits=weight_bits,
        kv_bits=kv_bits,
    )
    for row in range(rows):
        lm.sampler.set(row, sampling, row)
    return lm


def forced_speech(text: Tensor, agent: Tensor) -> Forced:
    """text [n], agent [n, 8]: what a call is given beside the user's codes."""
    tokens = torch.zeros(len(text), TOKEN_ROWS, dtype=torch.int64)
    tokens[:, TEXT_ROW], tokens[:, AGENT_ROWS] = text, agent
    mask = torch.zeros(TOKEN_ROWS, dtype=torch.bool)
    mask[TEXT_ROW], mask[AGENT_ROWS] = True, True
    return Forced(tokens, mask.expand(len(text), -1))


def live_rows(*flags: bool) -> Tensor:
    return torch.tensor(flags)
