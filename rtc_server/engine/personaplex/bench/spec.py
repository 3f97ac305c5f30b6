"""What is to be measured. Without torch, so that wrong usage is told at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rtc_server.engine.personaplex.config import (
    CODEBOOKS,
    MID_LM,
    PERSONAPLEX_7B,
    TINY_LM,
    LmConfig,
    MimiConfig,
    ModelConfig,
)
from rtc_server.errors import ConfigError

PARTS = ("lm", "mimi", "all")
DTYPES = ("f32", "bf16", "f16")
MAX_SLOTS = 256

_CODEC = MimiConfig(stored_codebooks=CODEBOOKS)
_TINY_CODEC = MimiConfig(
    filters=4, dim=32, heads=4, layers=2, feed_forward=64, context=20, code_dim=16, stored_codebooks=CODEBOOKS
)


def _preset(lm: LmConfig, mimi: MimiConfig) -> ModelConfig:
    return ModelConfig(replace(lm, card=mimi.bins), mimi, personaplex=True)


PRESETS = {
    "tiny": _preset(TINY_LM, _TINY_CODEC),
    "mid": _preset(MID_LM, _CODEC),
    "7b": _preset(PERSONAPLEX_7B.lm, _CODEC),
}
"""mid: a small language model and the codec in full size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineBench:
    """Every number of slots is measured at every age.

    Raises: ConfigError when a value is out of range.
    """

    preset: str = "mid"
    part: str = "lm"
    slots: tuple[int, ...] = (1, 4)
    live: int | None = None
    """Slots that speak; None: all."""
    fill: tuple[int, ...] = (100,)
    """Positions that a slot has taken before."""
    device: str | None = None
    dtype: str | None = None
    """None: what suits the device."""
    threads: int | None = None
    weight_bits: int = 16
    kv_bits: int = 16
    depformer_steps: int = CODEBOOKS
    ticks: int = 40
    """Calls of each subject in a run."""
    peer: Path | None = None
    """An interpreter that has the reference implementation."""
    buffer_bytes: int | None = None
    """Read to measure the memory's bandwidth; None: several times the largest cache."""

    def __post_init__(self) -> None:
        check(self.preset in PRESETS, f"--preset {self.preset!r} is none of {', '.join(PRESETS)}")
        check(self.part in PARTS, f"--part {self.part!r} is none of {', '.join(PARTS)}")
        check(self.dtype is None or self.dtype in DTYPES, f"--dtype {self.dtype!r} is none of {', '.join(DTYPES)}")
        check(len(self.slots) > 0, "--slots needs a number")
        for slots in self.slots:
            check(1 <= slots <= MAX_SLOTS, f"--slots {slots} must be 1..{MAX_SLOTS}")
        least = min(self.slots)
        check(
            self.live is None or 1 <= self.live <= least, f"--live {self.live} must be 1..{least}, the slots there are"
        )
        check(len(self.fill) > 0, "--fill needs a number")
        for fill in self.fill:
            check(1 <= fill <= 100_000, f"--fill {fill} must be 1..100000")
        check(self.threads is None or self.threads >= 1, f"--threads {self.threads} must be 1 or more")
        check(self.depformer_steps in (8, 16), f"--depformer-steps {self.depformer_steps} must be 8 or 16")
        check(1 <= self.ticks <= 10_000, f"--ticks {self.ticks} must be 1..10000")
        check(self.peer is None or self.part != "all", "--peer measures --part lm or --part mimi")

    @property
    def config(self) -> ModelConfig:
        return PRESETS[self.preset]


def check(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)
