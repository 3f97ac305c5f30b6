from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pytest

from rtc_server import voices_command
from rtc_server.engine.personaplex import presence
from rtc_server.errors import CheckpointError, ConfigError, EngineError

from .engine.personaplex.tiny import tiny_checkpoint
from .engine.personaplex.wavs import speech, wav


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_checkpoint(tmp_path / "checkpoint")


def run(*arguments: str | Path) -> int:
    parser = argparse.ArgumentParser()
    voices_command.add_arguments(parser)
    return voices_command.run_arguments(parser.parse_args([str(argument) for argument in arguments]))


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_voices_of_a_model_are_listed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model / "voices" / "broken.wav").write_bytes(b"RIFF")
    assert run("--model", model) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in shown[1:3]] == [["ALTO", "pt", "0.96"], ["BASS", "wav", "0.93"]]
    assert "ok, the default" in shown[1] and "ok" in shown[2] and "WAV" in shown[3]


def test_a_list_for_programs(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "A.wav").write_bytes(wav(speech(1.0)))
    (own / "broken.pt").write_bytes(b"")
    assert run("list", "--model", model, "--voices", own, "--json") == 0
    listed = lines(capsys)
    assert [(line["name"], line["kind"], line["seconds"], line["default"]) for line in listed] == [
        ("A", "wav", 1.0, True),
        ("ALTO", "pt", 0.96, False),
        ("BASS", "wav", 0.93, False),
        ("broken", "pt", 0.0, False),
    ]
    assert [bool(line["problem"]) for line in listed] == [False, False, False, True]
    assert listed[0]["file"] == str(own / "A.wav")


def test_nothing_but_json_goes_to_standard_output(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cache that cannot be written is warned about."""
    (tmp_path / "cache").write_bytes(b"")
    assert run("--model", model, "--json") == 0
    assert len(lines(capsys)) == 2


def test_a_folder_alone_needs_no_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--voices", model / "voices", "--json") == 0
    assert [line["name"] for line in lines(capsys)] == ["ALTO", "BASS"]


def test_without_a_model_the_published_one_is_listed_if_it_is_here(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(presence, "is_downloaded", lambda _: False)
    with pytest.raises(ConfigError, match="whose voices"):
        run()
    monkeypatch.setattr(presence, "is_downloaded", lambda _: True)
    monkeypatch.setattr(presence, "DEFAULT_MODEL", str(model))
    assert run("--json") == 0
    assert len(lines(capsys)) == 2


def test_files_are_converted_to_prepared_voices_that_a_model_takes(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "new" / "voices"
    assert run("convert", *sorted((model / "voices").iterdir()), "--to", to, "--model", model, "--json") == 0
    assert [(line["to"], line["seconds"]) for line in lines(capsys)] == [
        (str(to / "ALTO.safetensors"), 0.96),
        (str(to / "BASS.safetensors"), 0.96),
    ]
    assert run("--voices", to, "--model", model, "--json") == 0
    assert {line["name"]: line["kind"] for line in lines(capsys)} == {"ALTO": "prepared", "BASS": "prepared"}


def test_what_cannot_be_converted_is_told_and_the_rest_is_done(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "good.pt": (model / "voices" / "ALTO.pt").read_bytes(),
        "broken.pt": b"PK",
        "recorded.wav": wav(speech(1.0)),
        "bad name.pt": (model / "voices" / "ALTO.pt").read_bytes(),
        "other.mp3": b"ID3",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    to = tmp_path / "to"
    assert run("convert", *(tmp_path / name for name in files), tmp_path / "none.pt", "--to", to, "--json") == 1
    problems = {Path(line["file"]).name: line["problem"] for line in lines(capsys)}
    assert problems["good.pt"] is None and all(problems[name] for name in problems if name != "good.pt")
    assert "--model" in problems["recorded.wav"] and "name" in problems["bad name.pt"]
    assert [file.name for file in to.iterdir()] == ["good.safetensors"]
    assert run("convert", tmp_path / "broken.pt", "--to", to) == 1
    assert "no PyTorch file" in capsys.readouterr().out


def test_a_voice_of_another_model_is_not_converted_for_this_one(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    voice = {"embeddings": torch.ones(4, 1, 1, 64), "cache": torch.ones(1, 17, 4, dtype=torch.int64)}
    torch.save(voice, tmp_path / "wide.pt")
    assert run("convert", tmp_path / "wide.pt", "--to", tmp_path / "to", "--model", model, "--json") == 1
    assert "width 64" in lines(capsys)[0]["problem"]


@pytest.mark.parametrize(
    "arguments", [("convert",), ("convert", "a.pt"), ("convert", "--to", "x"), ("list", "a.pt"), ("--model", "nowhere")]
)
def test_arguments_that_do_not_fit_together_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        run(*arguments)


def test_a_damaged_model_and_a_target_that_is_no_folder_are_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match="--to"):
        run("convert", model / "voices" / "ALTO.pt", "--to", tmp_path / "file")
    os.remove(model / "tokenizer-tiny.safetensors")
    with pytest.raises(CheckpointError):
        run("--model", model)


def test_without_the_packages_the_extra_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(voices_command, "_listed", missing)
    with pytest.raises(EngineError, match=r"torch; pip install '\.\[personaplex\]'"):
        run("--model", model)
