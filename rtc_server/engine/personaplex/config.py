"""The shapes and rules of the two models. Plain data; the names of the reference's settings are read in `from_json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CODEBOOKS = 8
"""Codes of one voice in one frame: one semantic, seven acoustic."""
MAX_TOP_K = 250
"""Of text and audio: a larger one is lowered to it, and 0 means it. A row draws so many numbers for each token."""
CODEC_STEPS = 2
"""Of the codec's transformers in a frame."""
TOKEN_ROWS = 17
TEXT_ROW = 0
AGENT_ROWS = slice(1, 9)
USER_ROWS = slice(9, 17)
DELAYS = (0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1)
"""Calls by which each token row lies behind its frame: the text and each voice's first codebook come first."""


def gating_width(dim: int, feed_forward: int) -> int:
    """Width of one half of a gated feed-forward layer: 2/3 of the nominal width (21/8 dim when that is 4 dim)."""
    return 21 * dim // 8 if feed_forward == 4 * dim else 2 * feed_forward // 3


@dataclass(frozen=True, slots=True)
class LmConfig:
    """The language model: a temporal transformer over positions, a depformer over the codebooks of one position."""

    dim: int = 4096
    layers: int = 32
    heads: int = 32
    gating: int = 11264
    """Width of one half of the gated feed-forward layer."""
    context: int = 3000
    """Positions of the ring cache."""
    card: int = 2048
    """Audio codes; the code `card` is the initial token."""
    text_card: int = 32000
    depformer_steps: int = 16
    """Step sets stored in the checkpoint. Eight are enough to speak."""
    depformer_dim: int = 1024
    depformer_layers: int = 6
    depformer_heads: int = 16
    depformer_gating: int = 2816
    max_period: float = 10000.0
    drop_oldest: bool = True
    """PersonaPlex: a full ring hides its oldest position, so the window is `context` - 1. Moshi: False."""
    force_initial: bool = True
    """PersonaPlex: initial tokens are forced into the depformer too. Moshi: False."""
    delays: tuple[int, ...] = DELAYS
    """Of each of the 17 rows: calls by which it lies behind its frame."""

    @property
    def initial_tokens(self) -> tuple[int, ...]:
        """Of each of the 17 rows."""
        return (self.text_card, *[self.card] * (TOKEN_ROWS - 1))

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], *, personaplex: bool) -> LmConfig:
        """From the reference's settings (``dim``, ``num_heads``, ``hidden_scale``, ...).

        Raises: KeyError for a setting that is missing.
        """
        dim, dep_dim = int(raw["dim"]), int(raw["depformer_dim"])
        dep_feed_forward = int(raw.get("depformer_dim_feedforward") or raw["hidden_scale"] * dep_dim)
        return cls(
            dim=dim,
            layers=int(raw["num_layers"]),
            heads=int(raw["num_heads"]),
            gating=gating_width(dim, int(raw["hidden_scale"] * dim)),
            context=int(raw["context"]),
            card=int(raw["card"]),
            text_card=int(raw["text_card"]),
            depformer_steps=int(raw["dep_q"]),
            depformer_dim=dep_dim,
            depformer_layers=int(raw["depformer_num_layers"]),
            depformer_heads=int(raw["depformer_num_heads"]),
            depformer_gating=gating_width(dep_dim, dep_feed_forward),
            max_period=float(raw.get("max_period", 10000.0)),
            drop_oldest=personaplex,
            force_initial=personaplex,
            delays=tuple(int(delay) for delay in raw.get("delays", DELAYS)),
        )


@dataclass(frozen=True, slots=True)
class MimiConfig:
    """The codec: SEANet, a transformer on each side, a split residual quantizer."""

    ratios: tuple[int, ...] = (8, 6, 5, 4)
    """Upsampling of the decoder, in its order; the encoder uses them reversed."""
    filters: int = 64
    dim: int = 512
    heads: int = 8
    layers: int = 8
    feed_forward: int = 2048
    context: int = 250
    max_period: float = 10000.0
    bins: int = 2048
    code_dim: int = 256
    stored_codebooks: int = 32
    """In the checkpoint; eight are used."""
    drop_oldest: bool = True

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], *, personaplex: bool) -> MimiConfig:
        """Raises: KeyError for a setting that is missing."""
        seanet, transformer, quantizer = raw["seanet"], raw["transformer"], raw["quantizer"]
        return cls(
            ratios=tuple(seanet["ratios"]),
            filters=int(seanet["n_filters"]),
            dim=int(transformer["d_model"]),
            heads=int(transformer["num_heads"]),
            layers=int(transformer["num_layers"]),
            feed_forward=int(transformer["dim_feedforward"]),
            context=int(transformer["context"]),
            max_period=float(transformer["max_period"]),
            bins=int(quantizer["bins"]),
            code_dim=int(quantizer["dimension"]),
            stored_codebooks=int(quantizer["n_q"]),
            drop_oldest=personaplex,
        )


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A whole checkpoint."""

    lm: LmConfig
    mimi: MimiConfig
    personaplex: bool
    """It takes persona and voice prompts. False: plain Moshi, which starts from nothing."""


PERSONAPLEX_7B = ModelConfig(LmConfig(), MimiConfig(), personaplex=True)
MOSHIKO = ModelConfig(
    LmConfig(depformer_steps=8, drop_oldest=False, force_initial=False),
    MimiConfig(drop_oldest=False),
    personaplex=False,
)
MID_LM = LmConfig(
    dim=512,
    layers=8,
    heads=8,
    gating=1408,
    depformer_dim=256,
    depformer_layers=4,
    depformer_heads=4,
    depformer_gating=704,
)
"""For benchmarks on a CPU: 153 million parameters with all sixteen step sets."""
TINY_LM = LmConfig(
    dim=64, layers=3, heads=4, gating=176, context=24, card=256, text_card=300,
    depformer_dim=32, depformer_layers=2, depformer_heads=4, depformer_gating=88,
)  # fmt: skip
