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
from safetensors.torch import save_file
from torch import Tensor

from rtc_server.engine.personaplex.checkpoint import Checkpoint
from rtc_server.engine.personaplex.config import MimiConfig, ModelConfig
from rtc_server.engine.personaplex.files import lm_weights, mimi_weights
from rtc_server.engine.personaplex.names import lm_shapes
from rtc_server.errors import CheckpointError
from tests.engine.personaplex.goldens import GOLDEN, golden, lm_config, readme

LM = lm_config("lm")
MIMI = MimiConfig.from_json(readme()["configs"]["mimi"], personaplex=True)
STACKED = "depformer.layers.1.self_attn.in_proj_weight"
SOAK = bool(os.environ.get("RTC_SOAK"))
CODEBOOK = "quantizer.rvq_rest.vq.layers.3._codebook"


def checkpoint(
    lm_file: Path = GOLDEN / "lm_tiny.safetensors", mimi_file: Path = GOLDEN / "mimi_tiny.safetensors"
) -> Checkpoint:
    return Checkpoint("tiny", None, ModelConfig(LM, MIMI, personaplex=True), lm_file, mimi_file, lm_file, None)


def in_new_style(tensors: dict[str, Tensor], steps: int) -> dict[str, Tensor]:
    """As newer releases of the reference write it: a tensor for each block of a projection."""
    renamed = {}
    for name, tensor in tensors.items():
        if ".self_attn." not in name:
            renamed[name] = tensor
            continue
        prefix, kind = name.rsplit(".self_attn.", 1)
        series = "in_projs" if kind.startswith("in") else "out_projs"
        for index, block in enumerate(tensor.chunk(steps if prefix.startswith("depformer") else 1)):
            renamed[f"{prefix}.self_attn.{series}.{index}.weight"] = block.clone()
    return renamed


class CountingMeter:
    def __init__(self) -> None:
        self.total_bytes = self.done_bytes = 0
        self.stopped = False

    def start(self, task: str, total_bytes: int) -> None:
        self.task, self.total_bytes = task, total_bytes

    def advance(self, more_bytes: int) -> None:
        self.done_bytes += more_bytes

    def stop(self) -> None:
        self.stopped = True


def test_every_tensor_comes_as_it_is_stored() -> None:
    weights = lm_weights(checkpoint(), device="cpu", dtype=torch.float32, depformer_steps=16)
    for name, tensor in golden("lm_tiny").items():
        assert torch.equal(weights.take(name), tensor)


@pytest.mark.parametrize("rows", [slice(0, 96), slice(96, 192), slice(100, 500), slice(None, 5), slice(1530, None)])
def test_a_run_of_rows_is_the_same_in_both_key_styles(tmp_path: Path, rows: slice) -> None:
    save_file(in_new_style(golden("lm_tiny"), steps=16), tmp_path / "model.safetensors")
    new = lm_weights(checkpoint(tmp_path / "model.safetensors"), device="cpu", dtype=torch.float32, depformer_steps=8)
    old = lm_weights(checkpoint(), device="cpu", dtype=torch.float32, depformer_steps=8)
    want = golden("lm_tiny")[STACKED][rows]
    assert torch.equal(old.take(STACKED, rows), want)
    assert torch.equal(new.take(STACKED, rows), want)


def test_the_whole_model_is_the_same_in_the_new_key_style(tmp_path: Path) -> None:
    save_file(in_new_style(golden("lm_tiny"), steps=16), tmp_path / "model.safetensors")
    weights = lm_weights(
        checkpoint(tmp_path / "model.safetensors"), device="cpu", dtype=torch.float32, depformer_steps=8
    )
    for name, tensor in golden("lm_tiny").items():
        assert torch.equal(weights.take(name), tensor)


def test_a_checkpoint_in_several_files_is_the_same(tmp_path: Path) -> None:
    names = sorted(golden("lm_tiny"))
    files = {name: f"model-0000{1 + index % 3}-of-00003.safetensors" for index, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: golden("lm_tiny")[name] for name in names if files[name] == file}, tmp_path / file)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))
    weights = lm_weights(checkpoint(index), device="cpu", dtype=torch.float32, depformer_steps=16)
    for name, tensor in golden("lm_tiny").items():
        assert torch.equal(weights.take(name), tensor)


def test_the_codec_with_older_names_of_its_codebooks_is_the_same(tmp_path: Path) -> None:
    older = {"_initialized": "inited", "cluster_usage": "cluster_size", "embedding_sum": "embed_avg"}
    tensors = {
        re.sub(r"[^.]+$", lambda last: older.get(last[0], last[0]), name): tensor
        for name, tensor in golden("mimi_tiny").items()
    }
    save_file(tensors, tmp_path / "mimi.safetensors")
    weights = mimi_weights(checkpoint(mimi_file=tmp_path / "mimi.safetensors"), device="cpu")
    for name in (f"{CODEBOOK}.embedding_sum", f"{CODEBOOK}.cluster_usage"):
        assert torch.equal(weights.take(name), golden("mimi_tiny")[name])


def test_weights_are_converted_and_belong_to_the_taker() -> None:
    with lm_weights(checkpoint(), device="cpu", dtype=torch.bfloat16, depformer_steps=8) as weights:
        tensor = weights.take("emb.0.weight")
        tensor.zero_()
        again = weights.take("emb.0.weight")
    assert again.dtype == torch.bfloat16 and torch.equal(again, golden("lm_tiny")["emb.0.weight"].bfloat16())
    with lm_weights(checkpoint(), device="cpu", dtype=torch.float32, depformer_steps=8) as weights:
        weights.take("emb.0.weight").zero_()
        assert torch.equal(weights.take("emb.0.weight"), golden("lm_tiny")["emb.0.weight"])


def test_a_name_that_the_model_does_not_have_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        lm_weights(checkpoint(), device="cpu", dtype=torch.float32, depformer_steps=8).take("emb.99.weight")


def test_more_steps_than_the_checkpoint_holds_is_one_clear_error() -> None:
    eight = replace(
        checkpoint(GOLDEN / "moshiko_lm_tiny.safetensors"), config=ModelConfig(lm_config("mk"), MIMI, personaplex=False)
    )
    with pytest.raises(CheckpointError, match="holds 8 depformer step sets, 16 are asked for; use --depformer-steps 8"):
        lm_weights(eight, device="cpu", dtype=torch.float32, depformer_steps=16)


def test_differences_are_listed_before_anything_is_loaded(tmp_path: Path) -> None:
    tensors = dict(golden("lm_tiny"))
    del tensors["out_norm.alpha"], tensors["linears.3.weight"]
    tensors["extra.bias"] = torch.zeros(1)
    tensors["emb.4.weight"] = torch.zeros(3, 64)
    save_file(tensors, tmp_path / "model.safetensors")
    meter = CountingMeter()
    with pytest.raises(CheckpointError) as caught:
        lm_weights(
            checkpoint(tmp_path / "model.safetensors"),
            device="cpu",
            dtype=torch.float32,
            depformer_steps=8,
            meter=meter,
        )
    assert "2 missing: out_norm.alpha, linears.3.weight" in caught.value.message
    assert "1 unexpected: extra.bias" in caught.value.message
    assert "emb.4.weight [3, 64] instead of [257, 64]" in caught.value.message
    assert meter.total_bytes == 0


def test_a_codec_with_too_few_codebooks_is_refused(tmp_path: Path) -> None:
    kept = {
        name: tensor
        for name, tensor in golden("mimi_tiny").items()
        if not re.search(r"rvq_rest.*layers\.([5-9]|1.)\.", name)
    }
    save_file(kept, tmp_path / "mimi.safetensors")
    with pytest.raises(CheckpointError, match="holds 6 codebooks, the model needs 8"):
        mimi_weights(checkpoint(mimi_file=tmp_path / "mimi.safetensors"), device="cpu")


def test_a_codec_without_the_codebooks_that_nobody_uses_is_whole(tmp_path: Path) -> None:
    kept = {
        name: tensor
        for name, tensor in golden("mimi_tiny").items()
        if not re.search(r"rvq_rest.*layers\.([7-9]|1.)\.", name)
    }
    save_file(kept, tmp_path / "mimi.safetensors")
    mimi_weights(checkpoint(mimi_file=tmp_path / "mimi.safetensors"), device="cpu")


def test_progress_counts_the_bytes_that_eight_steps_need() -> None:
    meter = CountingMeter()
    with lm_weights(checkpoint(), device="cpu", dtype=torch.bfloat16, depformer_steps=8, meter=meter) as weights:
        for name, shape in lm_shapes(replace(LM, depformer_steps=8)).items():
            weights.take(name, slice(0, shape[0]))
        assert meter.done_bytes == meter.total_bytes < (GOLDEN / "lm_tiny.safetensors").stat().st_size * 0.9
        assert not meter.stopped
    assert meter.stopped and meter.task == "loading lm_tiny.safetensors"


def test_a_file_that_disappears_while_it_is_read_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes((GOLDEN / "lm_tiny.safetensors").read_bytes())
    weights = lm_weights(checkpoint(path), device="cpu", dtype=torch.float32, depformer_steps=8)
    path.unlink()
    with pytest.raises(CheckpointError, match="cannot be read any more"):
        weights.take("emb.0.weight")


def test_a_file_that_is_replaced_while_it_is_read_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes((GOLDEN / "lm_tiny.safetensors").read_bytes())
    weights = lm_weights(checkpoint(path), device="cpu", dtype=torch.float32, depformer_steps=8)
    save_file({"other": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="cannot be read any more"):
        weights.take("emb.0.weight")


@pytest.mark.soak
@pytest.mark.parametrize("dtype", ["f32", "bf16"] if SOAK else ["f32"])
def test_loading_takes_the_tensors_and_one_more_of_anonymous_memory(tmp_path: Path, dtype: str) -> None:
    """In a process of its own, since a process keeps some of what it once had."""
    size = "1.5" if SOAK else "0.3"
    program = [sys.executable, "-m", "tests.engine.personaplex.peakload", str(tmp_path), size, dtype]
    figures = json.loads(subprocess.run(program, capture_output=True, text=True, check=True, timeout=110).stdout)
    assert figures["file_bytes"] > float(size) * 1e9
    assert figures["tensor_bytes"] > 0.7 * figures["file_bytes"]
    allowed_bytes = figures["tensor_bytes"] + figures["largest_bytes"] + 32e6
    assert figures["anonymous_bytes"] <= allowed_bytes, figures
