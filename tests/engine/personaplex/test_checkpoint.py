from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rtc_server.engine.personaplex.checkpoint import locate, patterns_for
from rtc_server.errors import CheckpointError, ConfigError
from tests.engine.personaplex.goldens import lm_config
from tests.engine.personaplex.tiny import tiny_checkpoint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_checkpoint(tmp_path / "tiny")


def say(folder: Path, **settings: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def test_a_folder_is_a_checkpoint(folder: Path) -> None:
    checkpoint = locate(str(folder), None)
    assert (checkpoint.name, checkpoint.revision) == ("tiny", None)
    assert checkpoint.lm_file == folder / "model.safetensors"
    assert checkpoint.mimi_file == folder / "tokenizer-tiny.safetensors"
    assert checkpoint.tokenizer_file == folder / "tokenizer_spm_tiny.model"
    assert checkpoint.voices == folder / "voices"
    assert checkpoint.config.personaplex and checkpoint.config.lm == lm_config("slm")


def test_the_folder_may_be_named_in_any_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert locate(".", None).name == "tiny"
    monkeypatch.setenv("HOME", str(folder.parent))
    assert locate("~/tiny", None).name == "tiny"


def test_a_folder_goes_before_a_repository_of_the_same_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    shutil.move(folder, folder.parent / "lab" / "model")
    assert locate("lab/model", None).revision is None


def test_an_archive_of_voices_is_found(folder: Path) -> None:
    shutil.rmtree(folder / "voices")
    assert locate(str(folder), None).voices is None
    (folder / "voices.tgz").write_bytes(b"")
    assert locate(str(folder), None).voices == folder / "voices.tgz"


def test_all_files_that_are_missing_are_in_the_one_error(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()
    with pytest.raises(CheckpointError) as caught:
        locate(str(folder), None)
    assert caught.value.message == (
        f"{folder} lacks model.safetensors or model.safetensors.index.json (the language model), "
        "and tokenizer-*.safetensors (the codec, Mimi), and tokenizer_spm*.model or *.model (the text tokenizer)"
    )


def test_a_link_that_leads_nowhere_is_a_missing_file(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(folder / "gone")
    with pytest.raises(CheckpointError, match=r"lacks model\.safetensors"):
        locate(str(folder), None)


def test_any_single_tokenizer_will_do_and_the_published_one_goes_first(folder: Path) -> None:
    (folder / "other.model").write_bytes(b"")
    assert locate(str(folder), None).tokenizer_file.name == "tokenizer_spm_tiny.model"
    (folder / "tokenizer_spm_tiny.model").unlink()
    assert locate(str(folder), None).tokenizer_file.name == "other.model"
    (folder / "another.model").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"has another\.model and other\.model, of which one may be the text tok"):
        locate(str(folder), None)
    say(folder, tokenizer_name="other.model")
    assert locate(str(folder), None).tokenizer_file.name == "other.model"


def test_files_may_have_other_names(folder: Path) -> None:
    for kind, old, new in (
        ("moshi_name", "model.safetensors", "lm[1].safetensors"),
        ("mimi_name", "tokenizer-tiny.safetensors", "mimi.safetensors"),
        ("tokenizer_name", "tokenizer_spm_tiny.model", "text.spm"),
    ):
        shutil.move(folder / old, folder / new)
        say(folder, **{kind: new})
    checkpoint = locate(str(folder), None)
    assert checkpoint.lm_file.name == "lm[1].safetensors"
    assert checkpoint.mimi_file.name == "mimi.safetensors"
    assert checkpoint.tokenizer_file.name == "text.spm"


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/b", "a\\b", "..", ".", "", 7, ["x"], "c:x", "nul\0"])
def test_another_name_never_leads_out_of_the_folder(folder: Path, name: object) -> None:
    say(folder, moshi_name=name)
    with pytest.raises(CheckpointError, match="moshi_name .* is not the bare name of a file"):
        locate(str(folder), None)


def test_a_file_is_not_a_folder(folder: Path) -> None:
    with pytest.raises(ConfigError, match="is a file; --model takes the folder"):
        locate(str(folder / "model.safetensors"), None)


def test_a_folder_has_no_revisions(folder: Path) -> None:
    with pytest.raises(ConfigError, match="has no revision 'v2'; drop --revision"):
        locate(str(folder), "v2")


@pytest.mark.parametrize(
    "model",
    ["", "nowhere", "./nowhere", "/nowhere/at/all", "a/b/c", "a b/c", "-x/y", "owner/", "~nobody-here/x", "x" * 9999],
)
def test_what_is_neither_a_folder_nor_a_repository_is_refused_without_asking_anybody(model: str) -> None:
    with pytest.raises(ConfigError):
        locate(model, None)


def test_half_a_download_is_noticed_before_anything_is_loaded(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:1_000_000])
    with pytest.raises(CheckpointError, match="has 1000000 bytes where its header says 8907208"):
        locate(str(folder), None)


def test_of_a_repository_only_what_is_needed_is_fetched() -> None:
    patterns = patterns_for({"mimi_name": "mimi.safetensors"})
    assert "mimi.safetensors" in patterns and "model.safetensors" in patterns and "voices.tgz" in patterns
    assert "tokenizer-*.safetensors" not in patterns and "*" not in patterns
