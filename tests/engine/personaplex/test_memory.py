from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rtc_server.engine.personaplex.config import MOSHIKO, PERSONAPLEX_7B, TINY_LM, LmConfig, MimiConfig, ModelConfig
from rtc_server.engine.personaplex.footprint import (
    lm_row_bytes,
    lm_weights_bytes,
    mimi_row_bytes,
    mimi_weights_bytes,
    ring_bytes,
)
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.memory import MemoryPlan, plan_memory
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.names import lm_shapes, mimi_shapes
from rtc_server.engine.personaplex.weights import StateDict
from tests.engine.personaplex.goldens import golden, readme

SOAK = bool(os.environ.get("RTC_SOAK"))
GB = 10**9
ROWS = 3
TINY_MIMI = MimiConfig.from_json(readme()["configs"]["mimi"], personaplex=True)


def plan(**changes: object) -> MemoryPlan:
    asked = {"slots": 4, "dtype": "bf16", **changes}
    return plan_memory(PERSONAPLEX_7B, **asked)  # type: ignore[arg-type]


def random_lm(config: LmConfig, dtype: torch.dtype, *, weight_bits: int, kv_bits: int, steps: int) -> LanguageModel:
    generator = torch.Generator().manual_seed(1)
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in lm_shapes(config).items()}
    return LanguageModel(
        StateDict(tensors, dtype=dtype), config, rows=ROWS, device="cpu", dtype=dtype,
        depformer_steps=steps, weight_bits=weight_bits, kv_bits=kv_bits,
    )  # fmt: skip


@pytest.mark.parametrize("steps", [8, 16])
@pytest.mark.parametrize("kv_bits", [16, 8])
@pytest.mark.parametrize("weight_bits", [16, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_language_model_takes_what_was_planned(
    dtype: torch.dtype, weight_bits: int, kv_bits: int, steps: int
) -> None:
    lm = random_lm(TINY_LM, dtype, weight_bits=weight_bits, kv_bits=kv_bits, steps=steps)
    weights = lm_weights_bytes(TINY_LM, steps=steps, item_bytes=dtype.itemsize, activation_bytes=4, bits=weight_bits)
    row = ring_bytes(TINY_LM, item_bytes=4, bits=kv_bits) + lm_row_bytes(TINY_LM, steps=steps, activation_bytes=4)
    assert weights == pytest.approx(lm.nbytes, rel=0.05)
    assert row == pytest.approx(lm.bytes_per_row, rel=0.01)


@pytest.mark.parametrize("drop_oldest", [True, False])
def test_what_a_slot_remembers_grows_with_the_context(drop_oldest: bool) -> None:
    config = replace(TINY_LM, context=200, drop_oldest=drop_oldest)
    lm = random_lm(config, torch.float32, weight_bits=16, kv_bits=16, steps=8)
    assert ring_bytes(config, item_bytes=4) == pytest.approx(lm.kv.bytes_per_row, rel=1e-3)


def test_a_small_codec_takes_what_was_planned() -> None:
    mimi = Mimi(StateDict(golden("mimi_tiny")), TINY_MIMI, rows=ROWS, device="cpu")
    assert mimi_weights_bytes(TINY_MIMI) == pytest.approx(mimi.nbytes, rel=0.01)
    assert mimi_row_bytes(TINY_MIMI) == pytest.approx(mimi.bytes_per_row, rel=0.01)


def test_the_codec_of_the_published_checkpoints_takes_what_was_planned() -> None:
    tensors = {name: torch.ones(1).expand(shape) for name, shape in mimi_shapes(MimiConfig()).items()}
    mimi = Mimi(StateDict(tensors), MimiConfig(), rows=1, device="cpu")
    assert mimi_weights_bytes(MimiConfig()) == pytest.approx(mimi.nbytes, rel=0.01)
    assert mimi_row_bytes(MimiConfig()) == pytest.approx(mimi.bytes_per_row, rel=0.01)


@pytest.mark.soak
@pytest.mark.parametrize(("weight_bits", "kv_bits"), [(16, 16), (8, 16), (16, 8)] if SOAK else [(16, 16)])
def test_a_process_takes_what_was_planned(tmp_path: Path, weight_bits: int, kv_bits: int) -> None:
    """As the kernel counts it, conversions and their leavings included."""
    module = "tests.engine.personaplex.peakmodel"
    program = [sys.executable, "-m", module, str(tmp_path), "2", str(weight_bits), str(kv_bits)]
    figures = json.loads(subprocess.run(program, capture_output=True, text=True, check=True, timeout=110).stdout)
    assert figures["planned_bytes"] > 0.7 * GB
    assert figures["taken_bytes"] == pytest.approx(figures["planned_bytes"], rel=0.03)


def test_the_published_model_takes_what_its_shapes_say() -> None:
    """512 KiB a position: keys and values of 4096 numbers of two bytes in each of 32 layers."""
    published = plan(depformer_steps=16)
    lm_bytes = published.load_bytes - mimi_weights_bytes(MimiConfig())
    assert lm_bytes == pytest.approx(2 * 8_371_408_896, rel=1e-3)
    assert published.ring_bytes_per_slot == pytest.approx(512 * 1024 * 3000, rel=1e-4)
    assert published.bytes_per_slot == pytest.approx(published.ring_bytes_per_slot + 16.4e6, rel=1e-3)


def test_each_choice_lowers_what_it_says() -> None:
    full = plan()
    assert plan(weight_bits=8).load_bytes == pytest.approx(full.load_bytes * 0.53, rel=0.03)
    assert plan(kv_bits=8).bytes_per_slot == pytest.approx(full.bytes_per_slot * 0.55, rel=0.03)
    assert plan(max_context=1500).ring_bytes_per_slot == pytest.approx(full.ring_bytes_per_slot / 2, rel=0.01)
    assert plan(max_context=9999).context == 3000
    assert plan(dtype="f32").load_bytes > 1.9 * full.load_bytes
    assert plan(slots=5).total_bytes - full.total_bytes == full.bytes_per_slot
    assert plan(pin_prompt=True).bytes_per_slot > 1.09 * full.bytes_per_slot
    assert plan(depformer_steps=16).load_bytes - full.load_bytes == pytest.approx(1.35 * GB, rel=0.03)


def test_on_a_cpu_slots_are_kept_in_float32_whatever_the_weights_are() -> None:
    assert plan(device_type="cpu").ring_bytes_per_slot == pytest.approx(2 * plan().ring_bytes_per_slot, rel=1e-3)
    assert plan(device_type="cpu").load_bytes == plan().load_bytes


def test_the_largest_number_of_slots_and_the_longest_context_fit_exactly() -> None:
    asked = plan(slots=64)
    slots = asked.slots_in(80 * GB)
    assert replace(asked, slots=slots).total_bytes <= 80 * GB < replace(asked, slots=slots + 1).total_bytes
    context = asked.context_in(80 * GB)
    fits = plan(slots=64, max_context=context)
    assert fits.total_bytes <= 80 * GB < plan(slots=64, max_context=context + 3).total_bytes
    assert asked.slots_in(10 * GB) == 0 and asked.context_in(10 * GB) == 0


def test_a_plan_in_a_line() -> None:
    assert plan().describe() == (
        "load 15.73 GB + 4 slots of 1.59 GB (3000 positions, 240 s) + prompts 1.57 GB + work about 1.07 GB = 24.73 GB"
    )
    tiny = plan_memory(ModelConfig(TINY_LM, TINY_MIMI, True), slots=1, dtype="f32", device_type="cpu")
    assert tiny.describe().startswith("load 6.0 MB + 1 slot of 0.1 MB (24 positions, 2 s)")


def test_what_fits_needs_no_advice() -> None:
    assert plan().shortage(25 * GB) is None
    assert plan().shortage(24 * GB) == (f"24.73 GB of memory are needed, 24.00 GB are free: {plan().describe()}")


def test_whatever_is_enough_by_itself_is_advised() -> None:
    advice = plan().advice(24 * GB)
    assert re.fullmatch(
        r"any of these is enough: --slots 3, --max-context 27\d\d \(21\d s\), "
        r"--weights int8 \(17\.36 GB\), --kv int8 \(21\.17 GB\)",
        advice,
    )
    assert "--dtype bf16 (24.73 GB)" in plan(dtype="f32").advice(30 * GB)


def advised(advice: str) -> list[dict[str, object]]:
    """Each remedy as arguments of a plan; none when there is none."""
    if advice.startswith("even"):
        return []
    remedies = advice.split(": ", 1)[1].split(", ")
    return [
        {key: convert(match[1]) for flag, key, convert in FLAGS if (match := re.search(flag, remedy))}
        for remedy in remedies
    ]


FLAGS = (
    (r"--slots (\d+)", "slots", int),
    (r"--max-context (\d+)", "max_context", int),
    (r"--dtype (\w+)", "dtype", str),
    (r"--weights (int8)", "weight_bits", lambda _: 8),
    (r"--kv (int8)", "kv_bits", lambda _: 8),
)


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("slots", [1, 4, 16, 64])
def test_what_is_advised_fits(slots: int, dtype: str) -> None:
    for free_gb in range(8, 140, 3):
        asked = plan(slots=slots, dtype=dtype)
        if asked.shortage(free_gb * GB) is None:
            break
        for change in advised(asked.advice(free_gb * GB)):
            assert plan(**{"slots": slots, "dtype": dtype, **change}).shortage(free_gb * GB) is None, (free_gb, change)


@pytest.mark.parametrize(
    ("slots", "free_gb", "advice"),
    [
        (4, 15, r"--weights int8 --kv int8 \(13\.80 GB\)"),
        (4, 12, r"--max-context 1\d\d\d --weights int8 --kv int8 \(12\.00 GB\)"),
        (48, 12, r"--slots 1 --weights int8 --kv int8 \(11\.17 GB\)"),
        (48, 10, r"--slots \d --max-context 256 --weights int8 --kv int8 \(9\.\d\d GB\)"),
    ],
)
def test_when_nothing_is_enough_by_itself_several_are_advised_together(slots: int, free_gb: int, advice: str) -> None:
    assert re.fullmatch(f"only together are these enough: {advice}", plan(slots=slots).advice(free_gb * GB))


def test_a_device_that_is_too_small_is_told_so() -> None:
    assert plan().advice(8 * GB) == (
        "even --slots 1 --max-context 256 --weights int8 --kv int8 takes 9.59 GB: a device with more memory is needed"
    )
    assert plan_memory(MOSHIKO, slots=1, dtype="bf16").advice(1 * GB).startswith("even --max-context 256")
