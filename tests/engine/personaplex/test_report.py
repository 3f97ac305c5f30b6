"""What `check` says about the model before a byte of it is loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from rtc_server.engine.personaplex import device, hub, load, report
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.registry import report as report_of
from rtc_server.errors import CheckpointError, ConfigError, EngineError
from tests.engine.personaplex.fakehub import COMMIT


@pytest.fixture(autouse=True)
def _nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub, "fetch", lambda *_: pytest.fail("fetched"))


@pytest.fixture
def snapshot(checkpoint: Path, tmp_path: Path) -> Path:
    """lab/tiny in the hub's cache, as its branch main."""
    repository = tmp_path / "hub" / "models--lab--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    return Path(shutil.copytree(checkpoint, repository / "snapshots" / COMMIT))


def test_a_folder_is_described_with_its_memory(checkpoint: Path) -> None:
    said = report_of("personaplex", EngineOptions(slots=3, device="cpu", model=str(checkpoint)))
    assert said is not None
    assert "on this machine" in said
    assert "3 slots of" in said
    assert "load 9.3 MB" in said


def test_a_published_model_is_described_before_it_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "free_bytes", lambda where: 80_000_000_000)
    said = report.report(EngineOptions(slots=4, device="cpu", dtype="bf16"))
    assert "nvidia/personaplex-7b-v1 on cpu, to be fetched at the first start" in said
    assert "load 15.7" in said


def test_an_unknown_repository_is_not_fetched_to_be_described() -> None:
    said = report.report(EngineOptions(device="cpu", model="somebody/something"))
    assert said == "somebody/something on cpu, to be fetched at the first start."


def test_a_whole_snapshot_in_the_cache_is_described_from_its_files(snapshot: Path) -> None:
    for revision in (None, COMMIT):
        said = report.report(EngineOptions(device="cpu", model="lab/tiny", revision=revision))
        assert "lab/tiny on cpu, on this machine. Memory: load 9.3 MB" in said


def test_another_revision_than_the_one_in_the_cache_is_still_to_be_fetched(snapshot: Path) -> None:
    said = report.report(EngineOptions(device="cpu", model="lab/tiny", revision="v2"))
    assert said == "lab/tiny on cpu, to be fetched at the first start."


@pytest.mark.parametrize("pattern", ["model.safetensors", "tokenizer_spm*"])
def test_half_a_snapshot_in_the_cache_is_still_to_be_fetched(snapshot: Path, pattern: str) -> None:
    next(snapshot.glob(pattern)).unlink()
    said = report.report(EngineOptions(device="cpu", model="lab/tiny"))
    assert said == "lab/tiny on cpu, to be fetched at the first start."


def test_a_shard_that_is_not_in_the_cache_is_still_to_be_fetched(snapshot: Path) -> None:
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors.index.json").write_text('{"weight_map": {"x": "model-1.safetensors"}}')
    said = report.report(EngineOptions(device="cpu", model="lab/tiny"))
    assert said == "lab/tiny on cpu, to be fetched at the first start."


def test_a_damaged_file_in_the_cache_is_said(snapshot: Path) -> None:
    (snapshot / "model.safetensors").write_bytes(b"spoilt")
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        report.report(EngineOptions(device="cpu", model="lab/tiny"))


def test_too_little_memory_is_said_with_the_figures_and_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "free_bytes", lambda where: 24_000_000_000)
    with pytest.raises(EngineError) as caught:
        report.report(EngineOptions(slots=8, device="cpu", dtype="bf16"))
    assert "24.00 GB are free" in caught.value.message
    assert "8 slots of" in caught.value.message
    assert "--slots" in caught.value.hint


def test_what_loading_would_refuse_is_refused_here(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither a folder nor the name of a repository"):
        report.report(EngineOptions(device="cpu", model="/no/such/folder"))
    with pytest.raises(CheckpointError, match="lacks"):
        report.report(EngineOptions(device="cpu", model=str(tmp_path)))
    with pytest.raises(ConfigError, match="device"):
        report.report(EngineOptions(device="warp"))


def test_loading_without_memory_says_the_same(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "free_bytes", lambda where: 1_000_000)
    with pytest.raises(EngineError, match=r"are needed, 1.0 MB are free"):
        load.load_model(2, EngineOptions(slots=2, device="cpu", model=str(checkpoint)))


def test_memory_that_goes_while_loading_is_said_with_the_figures(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr(load, "Mimi", out_of_memory)
    with pytest.raises(EngineError, match=r"out of memory on cpu while the model was loading: load 9\.3 MB \+ 2 slots"):
        load.load_model(2, EngineOptions(slots=2, device="cpu", model=str(checkpoint)))


def test_free_memory_of_this_machine_is_known() -> None:

    free = device.free_bytes(torch.device("cpu"))
    assert free is not None
    assert free > 1_000_000
