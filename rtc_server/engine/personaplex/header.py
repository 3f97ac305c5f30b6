"""What a safetensors file says it holds: names, types, shapes. Only the first kilobytes are read, and without torch.

A file starts with the length of its header (8 bytes, little endian), then the header, a JSON object
``{name: {"dtype", "shape", "data_offsets": [begin, end]}}``, then the data. A checkpoint in several files has an index,
a JSON object whose ``weight_map`` says which file holds which tensor.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rtc_server.errors import CheckpointError

MAX_HEADER_BYTES = 100_000_000
"""As in the format's own library. A header of 475 tensors has 60 kB."""
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_ELSEWHERE = re.compile(r"[/\\:\0]")
_LFS_POINTER = b"version https://git-lfs"


class FilesMissing(CheckpointError):
    """Nothing is wrong with the files of a checkpoint but that some are not there."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    file: Path
    dtype: str
    """As the format writes it: ``F32``, ``BF16``, ..."""
    shape: tuple[int, ...]
    nbytes: int


def read_header(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a safetensors file, or of all files that an index (``*.json``) names.

    Raises: CheckpointError for what cannot be read, is something else, or is shorter than its header says; FilesMissing
    for an index that names files which are not there.
    """
    try:
        if path.suffix == ".json":
            return _read_index(path)
        with path.open("rb") as file:
            return _read_file(file, path)
    except OSError as error:
        raise CheckpointError(
            f"cannot read {path}: {error.strerror or error}", hint="check that the file is still there and readable"
        ) from error


def _read_index(path: Path) -> dict[str, StoredTensor]:
    try:
        weight_map: dict[str, str] = json.loads(path.read_bytes())["weight_map"]
        names = sorted(set(map(str, weight_map.values())))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, "is not an index of safetensors files") from error
    if outside := [name for name in names if not is_bare_name(name)]:
        raise _damaged(path, f"names a file outside its folder: {outside[0]!r}")
    if missing := [name for name in names if not (path.parent / name).is_file()]:
        raise FilesMissing(f"{path.name} names files that are not in {path.parent}: {', '.join(missing)}",
                           hint="fetch them; a checkpoint in several files needs all of them")  # fmt: skip
    stored: dict[str, StoredTensor] = {}
    for name in names:
        stored |= read_header(path.parent / name)
    return stored


def _read_file(file: BinaryIO, path: Path) -> dict[str, StoredTensor]:
    file_bytes = path.stat().st_size
    start = file.read(len(_LFS_POINTER))
    if start == _LFS_POINTER:
        raise CheckpointError(f"{path} is only a git-lfs pointer to the file", hint="run: git lfs pull")
    header_bytes = int.from_bytes(start[:8], "little")
    if len(start) < 8 or header_bytes > MAX_HEADER_BYTES or (file.seek(8) and file.read(1) != b"{"):
        raise _damaged(path, "is not a safetensors file")
    file.seek(8)
    raw = file.read(header_bytes)
    if len(raw) < header_bytes:
        raise _damaged(path, f"ends after {file_bytes} bytes, inside its header")
    try:
        entries = json.loads(raw)
        entries.pop("__metadata__", None)
        tensors = {name: _tensor(entry, path) for name, entry in entries.items()}
        end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, "has a header that cannot be understood") from error
    expected_bytes = 8 + header_bytes + end
    if file_bytes != expected_bytes:
        raise _damaged(path, f"has {file_bytes} bytes where its header says {expected_bytes}")
    return tensors


def _tensor(entry: Mapping[str, Any], path: Path) -> StoredTensor:
    begin, end = entry["data_offsets"]
    shape = tuple(int(size) for size in entry["shape"])
    dtype = str(entry["dtype"])
    item_bytes = ITEM_BYTES.get(dtype)
    if min(shape, default=0) < 0 or not 0 <= begin <= end:
        raise ValueError("a negative size")
    if item_bytes is not None and end - begin != item_bytes * math.prod(shape):
        raise ValueError("the data's length is not that of the shape")
    return StoredTensor(path, dtype, shape, end - begin)


def is_bare_name(name: object) -> bool:
    """Of a file in the folder that is meant: nothing that leads elsewhere."""
    return isinstance(name, str) and name not in ("", ".", "..") and not _ELSEWHERE.search(name)


def _damaged(path: Path, what: str) -> CheckpointError:
    real = path.resolve()  # in the hub's cache the name is a link, and deleting that would not be enough
    return CheckpointError(f"{path} {what}", hint=f"half a download or copy? delete {real} and fetch it again")
