from __future__ import annotations

from pathlib import Path

import pytest

from rtc_server.engine.cascade import models
from rtc_server.engine.cascade.models import load_models
from tests.engine.cascade.fakes import FakeVoice

pytest.importorskip("earshot")
from tests.logs import captured_logs


def test_unusable_weights_are_a_warning_and_leave_an_agent_without_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "HibariVoice", FakeVoice)
    with captured_logs() as logs:
        loaded = load_models(tmp_path / "nothing-here")
    assert loaded.recogniser is None
    assert [(entry["log_level"], "model.bin" in entry["reason"]) for entry in logs] == [("warning", True)]


def test_files_that_are_no_model_are_unusable_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr(models, "HibariVoice", FakeVoice)
    for name in ("model.bin", "config.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    assert load_models(tmp_path).recogniser is None
