from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rtc_server.engine.personaplex.header import read_header
from rtc_server.errors import CheckpointError


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(3, 4, dtype=torch.bfloat16), "b": torch.zeros(5)}, path, metadata={"format": "pt"})
    return path


def raw_file(path: Path, header: object, data: bytes = b"") -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_names_types_shapes_and_sizes_are_read(whole: Path) -> None:
    stored = read_header(whole)
    assert {name: (tensor.dtype, tensor.shape, tensor.nbytes) for name, tensor in stored.items()} == {
        "a": ("BF16", (3, 4), 24),
        "b": ("F32", (5,), 20),
    }


def test_torch_is_not_needed(whole: Path) -> None:
    """`rtc-server check` looks at a checkpoint in a fraction of the time that importing torch takes."""
    code = (
        "import sys, pathlib; from rtc_server.engine.personaplex.header import read_header;"
        "import rtc_server.engine.personaplex.checkpoint, rtc_server.engine.personaplex.memory;"
        f"print(len(read_header(pathlib.Path({str(whole)!r}))), *({{'torch', 'huggingface_hub'}} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "2\n"


@pytest.mark.parametrize("keep_bytes", [-1, -30, 100, 20, 8, 5, 0])
def test_half_a_file_is_noticed_wherever_it_ends(whole: Path, keep_bytes: int) -> None:
    whole.write_bytes(whole.read_bytes()[:keep_bytes])
    with pytest.raises(CheckpointError, match=r"model\.safetensors") as caught:
        read_header(whole)
    assert f"delete {whole} and fetch it again" in caught.value.hint


def test_a_file_with_something_behind_its_data_is_damaged(whole: Path) -> None:
    with whole.open("ab") as file:
        file.write(b"?")
    with pytest.raises(CheckpointError, match="bytes where its header says"):
        read_header(whole)


def test_the_hint_names_the_file_behind_a_link(whole: Path, tmp_path: Path) -> None:
    """Deleting a link in the hub's cache would not be enough."""
    blob = tmp_path / "blob"
    blob.write_bytes(whole.read_bytes()[:-1])
    whole.unlink()
    whole.symlink_to(blob)
    with pytest.raises(CheckpointError) as caught:
        read_header(whole)
    assert f"delete {blob} and" in caught.value.hint


@pytest.mark.parametrize(
    "content", [b"<html><body>moved</body></html>", b"PK\x03\x04 an archive, perhaps", b"\xff" * 64, bytes(64)]
)
def test_other_kinds_of_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        read_header(path)


def test_a_git_lfs_pointer_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_text("version https://git-lfs.example/spec/v1\noid sha256:00\nsize 16742871234\n")
    with pytest.raises(CheckpointError, match="git-lfs pointer"):
        read_header(path)


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}},
        {"a": {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]}},
        {"a": {"shape": [1], "data_offsets": [0, 4]}},
        {"a": "F32"},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": ["0", "4"]}},
    ],
)
def test_a_header_that_contradicts_itself_is_damaged(tmp_path: Path, header: object) -> None:
    path = raw_file(tmp_path / "model.safetensors", header, b"\0" * 4)
    with pytest.raises(CheckpointError, match="cannot be understood"):
        read_header(path)


def test_a_file_that_is_not_there_or_a_folder_is_one_clear_error(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.safetensors", tmp_path):
        with pytest.raises(CheckpointError, match="cannot read"):
            read_header(path)


def test_a_checkpoint_in_several_files_is_read_through_its_index(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "model-00001-of-00002.safetensors")
    save_file({"b": torch.zeros(3)}, tmp_path / "model-00002-of-00002.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(
        json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
    )
    assert {name: tensor.file.name for name, tensor in read_header(index).items()} == {
        "a": "model-00001-of-00002.safetensors",
        "b": "model-00002-of-00002.safetensors",
    }
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"not in .*: model-00002-of-00002\.safetensors"):
        read_header(index)


@pytest.mark.parametrize("content", ["[]", "{", '{"weight_map": ["a"]}', "{}"])
def test_an_index_that_is_none_is_damaged(tmp_path: Path, content: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(content)
    with pytest.raises(CheckpointError, match="is not an index"):
        read_header(index)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", ".."])
def test_an_index_names_files_of_its_own_folder_only(tmp_path: Path, name: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(CheckpointError, match="outside its folder"):
        read_header(index)
