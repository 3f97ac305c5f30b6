"""What ``rtc-server verify`` prints, and what it returns."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console

from rtc_server import cli
from rtc_server.engine.personaplex.verify.report import Report
from rtc_server.verify_command import show

GOLDEN = Path(__file__).parent / "data" / "golden"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The quickest part alone."""
    for name in ("README.json", "sampling_golden.safetensors"):
        shutil.copy(GOLDEN / name, tmp_path / name)
    return tmp_path


def verify(*arguments: object) -> int:
    return cli.main(["verify", *map(str, arguments), "--device", "cpu"])


def printed(report: Report) -> str:
    out = io.StringIO()
    show(report, Console(file=out, width=200))
    return out.getvalue()


def test_a_folder_that_holds_returns_0_and_says_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(folder) == 0
    out = capsys.readouterr().out
    assert "all 4 groups hold (device cpu, dtype f32, torch" in out
    assert "mimi: not in this folder: mimi_golden.safetensors" in out


def test_json_has_a_line_a_group_and_a_summary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(folder, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    groups = {line["group"]: line for line in lines[:-1]}
    assert groups["sampling text: tokens"] == {
        "group": "sampling text: tokens",
        "max_error": 0.0,
        "limit": None,
        "tokens": 64,
        "tokens_wrong": 0,
        "ok": True,
    }
    assert groups["mimi"]["ok"] is None and groups["mimi"]["skipped"]
    assert lines[-1]["ok"] is True and lines[-1]["groups"] == 4 and lines[-1]["missed"] == []


def test_a_miss_returns_1_and_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "sampling_golden.safetensors")
    tensors["audio.tokens"][5] += 1
    save_file(tensors, folder / "sampling_golden.safetensors")
    assert verify(folder) == 1
    out = capsys.readouterr().out
    assert "sampling audio: tokens: 1 of 64 tokens wrong, first row, index 5: " in out
    assert "1 of 4 groups do not hold" in out


@pytest.mark.parametrize("spoil", ["README.json", "sampling_golden.safetensors"])
def test_a_folder_that_cannot_be_used_returns_2(spoil: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / spoil).write_bytes(b"{")
    assert verify(folder) == 2
    captured = capsys.readouterr()
    assert spoil in captured.err and "Traceback" not in captured.err
    assert not captured.out


def test_a_missing_package_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "rtc_server.engine.personaplex.verify.run", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "rtc_server.engine.personaplex.verify", raising=False)
    assert verify(folder) == 2
    assert ".[personaplex]" in capsys.readouterr().err


def test_the_table_shows_errors_beside_their_limits() -> None:
    report = Report({"device": "cpu"})
    report.group("lm: hidden", 1e-4).add_error(3e-5, 10)
    report.group("lm: logits", 1e-4).add_error(3e-3, 10)
    report.group("lm: tokens").add_tokens(20, 2, "call 3, index 1: 5 instead of 7")
    report.skip("moshi", "not in this folder: a file")
    lines = [" ".join(line.split()) for line in printed(report).splitlines()]
    assert "ok lm: hidden 3.0e-05 1e-04" in lines
    assert "NO lm: logits 3.0e-03 1e-04" in lines
    assert "NO lm: tokens 20 2" in lines
    assert "-- moshi" in lines
    assert "lm: tokens: 2 of 20 tokens wrong, first call 3, index 1: 5 instead of 7" in lines
    assert lines[-1] == "2 of 3 groups do not hold (device cpu)"


def test_errors_that_bind_nothing_are_told_without_limits() -> None:
    report = Report({"dtype": "bf16"}, binding=False)
    report.group("lm: hidden", 1e-4).add_error(3e-2, 10)
    text = printed(report)
    assert "3.0e-02" in text and "1e-04" not in text
    assert "errors against float32, for information (dtype bf16)" in text
