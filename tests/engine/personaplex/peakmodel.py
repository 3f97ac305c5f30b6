"""Run as a program: load a whole model for some rows, touch all of its memory, and print what it really took.

Memory that nobody has written to is not counted by the kernel, hence the touching.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import torch

from rtc_server.engine.personaplex.checkpoint import Checkpoint
from rtc_server.engine.personaplex.config import MID_LM, MimiConfig, ModelConfig
from rtc_server.engine.personaplex.files import lm_weights, mimi_weights
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.memory import WORK_BYTES, plan_memory
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.names import lm_shapes, mimi_shapes
from tests.engine.personaplex.peakload import status_bytes, write_holes


def main(folder: str, rows: int, weight_bits: int, kv_bits: int) -> None:
    torch.set_num_threads(1)
    config = ModelConfig(dataclasses.replace(MID_LM, context=2000), MimiConfig(), personaplex=True)
    lm_file, mimi_file = Path(folder) / "model.safetensors", Path(folder) / "tokenizer-holes.safetensors"
    write_holes(lm_file, lm_shapes(config.lm))
    write_holes(mimi_file, mimi_shapes(config.mimi))
    checkpoint = Checkpoint("holes", None, config, lm_file, mimi_file, lm_file, None)
    _warm_up()
    before_bytes = status_bytes("RssAnon")
    with lm_weights(checkpoint, device="cpu", dtype=torch.float32, depformer_steps=8) as weights:
        lm = LanguageModel(
            weights, config.lm, rows=rows, device="cpu", dtype=torch.float32, weight_bits=weight_bits, kv_bits=kv_bits
        )
    with mimi_weights(checkpoint, device="cpu") as weights:
        mimi = Mimi(weights, config.mimi, rows=rows, device="cpu")
    for row in range(rows):
        lm.reset(row, scrub=True)
        mimi.reset(row)
    taken_bytes = status_bytes("RssAnon") - before_bytes
    plan = plan_memory(config, slots=rows, dtype="f32", weight_bits=weight_bits, kv_bits=kv_bits, device_type="cpu")
    planned_bytes = plan.total_bytes - plan.prompt_cache_bytes - WORK_BYTES["cpu"]
    print(json.dumps({"taken_bytes": taken_bytes, "planned_bytes": planned_bytes}))


def _warm_up() -> None:
    """What torch takes for itself at its first products is not the model's."""
    x = torch.randn(64, 64)
    for _ in range(2):
        torch.nn.functional.linear(x, x).softmax(-1)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
