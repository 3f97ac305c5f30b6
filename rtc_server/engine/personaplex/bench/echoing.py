"""A model at work that says what it hears: for packets measured while an engine of real weight ticks and prefills.

Its weights are random, and its prompts are as long as real ones. What it computes is thrown away, so that the load
client, which listens for its own voice, can measure the path.
"""

from __future__ import annotations

import secrets
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from rtc_server.engine.personaplex.config import LmConfig, MimiConfig, ModelConfig
from rtc_server.engine.personaplex.device import parse_device
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.load import Model, plan_for
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.names import lm_shapes, mimi_shapes
from rtc_server.engine.personaplex.randomweights import RandomWeights
from rtc_server.engine.personaplex.stepper import PersonaPlexStepper
from rtc_server.engine.personaplex.tokenizer import Tokenizer
from rtc_server.engine.personaplex.voices import VoiceShelf
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FloatFrames, StepOutput

LM = LmConfig(
    dim=256,
    layers=3,
    heads=4,
    text_card=4000,
    gating=704,
    depformer_dim=128,
    depformer_layers=1,
    depformer_heads=4,
    depformer_gating=352,
)
MIMI = MimiConfig(filters=8, dim=64, heads=4, layers=1, feed_forward=128, code_dim=32)
PERSONA_TOKENS = 240
"""Two or three paragraphs."""


class EchoingModel(PersonaPlexStepper):
    """``--engine rtc_server.engine.personaplex.bench.echoing:EchoingModel``."""

    def __init__(self, slots: int, options: EngineOptions) -> None:
        torch.set_num_threads(options.threads or 1)
        device = parse_device(options.device)
        lm = LanguageModel(
            RandomWeights(lm_shapes(LM), device, torch.float32),
            LM,
            rows=slots,
            device=device,
            dtype=torch.float32,
        )
        mimi = Mimi(RandomWeights(mimi_shapes(MIMI), device, torch.float32), MIMI, rows=slots, device=device)
        config = ModelConfig(LM, MIMI, personaplex=True)
        tokenizer = cast(Tokenizer, _EveryPersonaIsNew(LM.text_card))
        plan = plan_for(config, slots, options, device, torch.float32)
        super().__init__(slots, options, Model("echoing", config, lm, mimi, tokenizer, VoiceShelf(()), device, plan))

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        np.copyto(output.pcm, pcm)
        return output


class _EveryPersonaIsNew:
    """No prompt is like one before, so that none comes out of the cache."""

    def __init__(self, size: int) -> None:
        self.pieces: tuple[str | bytes, ...] = ("",) * size

    def persona(self, text: str | None, most: int) -> tuple[int, ...]:
        return tuple(4 + secrets.randbelow(len(self.pieces) - 4) for _ in range(min(PERSONA_TOKENS, most)))
