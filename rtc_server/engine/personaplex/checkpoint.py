"""A checkpoint's files, in a folder or on the hub, and the model that they are. No torch.

::

    config.json                        optional; its absence means a published model
    model.safetensors                  the language model, or model.safetensors.index.json and what it names
    tokenizer-*.safetensors            the codec
    tokenizer_spm*.model               the text tokenizer
    voices/ or voices.tgz              voice prompts (PersonaPlex)

``moshi_name``, ``mimi_name`` and ``tokenizer_name`` in config.json give the three files other names.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtc_server.engine.personaplex import hub
from rtc_server.engine.personaplex.config import ModelConfig
from rtc_server.engine.personaplex.header import FilesMissing, is_bare_name, read_header
from rtc_server.engine.personaplex.progress import Meter
from rtc_server.engine.personaplex.settings import CONFIG_NAME, model_config, read_config
from rtc_server.errors import CheckpointError, ConfigError

VOICES_FOLDER, VOICES_ARCHIVE = "voices", "voices.tgz"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the three files that every checkpoint has."""

    what: str
    setting: str
    """In config.json, for another name."""
    patterns: tuple[str, ...]
    """The first that fits anything counts."""


LM = Kind("the language model", "moshi_name", ("model.safetensors", "model.safetensors.index.json"))
MIMI = Kind("the codec, Mimi", "mimi_name", ("tokenizer-*.safetensors",))
TOKENIZER = Kind("the text tokenizer", "tokenizer_name", ("tokenizer_spm*.model", "*.model"))
KINDS = (LM, MIMI, TOKENIZER)
SHARDS = "model-*.safetensors"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    name: str
    """Of the repository, or of the folder."""
    revision: str | None
    """Commit of a repository; None for a folder."""
    config: ModelConfig
    lm_file: Path
    """One safetensors file, or the index of several."""
    mimi_file: Path
    tokenizer_file: Path
    voices: Path | None
    """The folder ``voices``, or ``voices.tgz``."""


def locate(model: str, revision: str | None, meter: Meter | None = None) -> Checkpoint:
    """A folder, or a repository on the hub, which is fetched unless it is in the hub's cache.

    Reads the headers of the files, no tensor. A folder goes before a repository of the same name.

    Raises: ConfigError for a name that can be neither; CheckpointError for anything about the files.
    """
    if (folder := _folder(model, revision)) is not None:
        return in_folder(folder)
    snapshot = hub.fetch(model, revision, patterns_for, meter)
    return in_folder(snapshot, name=model, revision=snapshot.name)


def at_hand(model: str, revision: str | None) -> Checkpoint | None:
    """What `locate` finds without the network; None for a repository that the hub's cache does not hold whole.

    A branch is what it was when it was fetched last.

    Raises: as `locate`.
    """
    if (folder := _folder(model, revision)) is not None:
        return in_folder(folder)
    if (snapshot := hub.cached(model, revision, patterns_for)) is None:
        return None
    try:
        return in_folder(snapshot, name=model, revision=snapshot.name)
    except FilesMissing:
        return None


def _folder(model: str, revision: str | None) -> Path | None:
    """None for the name of a repository. Raises: ConfigError for a name that can be neither."""
    folder = _path(model)
    if folder.is_dir():
        if revision is not None:
            raise ConfigError(f"{model} is a folder and has no revision {revision!r}", hint="drop --revision")
        return folder
    if folder.exists():
        raise ConfigError(f"{model} is a file", hint="--model takes the folder with all the files of a checkpoint")
    if not _REPOSITORY.fullmatch(model):
        raise ConfigError(
            f"--model {model!r} is neither a folder nor the name of a repository",
            hint="give a folder that exists, or owner/name as on the hub",
        )
    return None


def _path(model: str) -> Path:
    """One that does not exist for a text that no path can be."""
    try:
        path = Path(model or "\0").expanduser()
        path.exists()
    except (OSError, RuntimeError):  # too long; no such user
        return Path("\0")
    return path


def in_folder(folder: Path, *, name: str | None = None, revision: str | None = None) -> Checkpoint:
    """Raises: FilesMissing, which lists them all; CheckpointError for anything else about the files."""
    raw = read_config(folder)
    found = {kind: _matches(folder, _patterns(kind, raw)) for kind in KINDS}
    if missing := [f"{' or '.join(_patterns(kind, raw))} ({kind.what})" for kind in KINDS if not found[kind]]:
        raise FilesMissing(
            f"{folder} lacks {', and '.join(missing)}",
            hint="put all files of a checkpoint into one folder, or name a repository on the hub",
        )
    for kind, files in found.items():
        if len(files) > 1:
            raise CheckpointError(
                f"{folder} has {' and '.join(file.name for file in files)}, of which one may be {kind.what}",
                hint=f"say which: {kind.setting!r} in {CONFIG_NAME}",
            )
    (lm_file,), (mimi_file,), (tokenizer_file,) = (found[kind] for kind in KINDS)
    voices = next((path for path in (folder / VOICES_FOLDER, folder / VOICES_ARCHIVE) if path.exists()), None)
    config = model_config(raw, read_header(lm_file), read_header(mimi_file), has_voices=voices is not None)
    return Checkpoint(name or folder.resolve().name, revision, config, lm_file, mimi_file, tokenizer_file, voices)


def patterns_for(raw: Mapping[str, Any]) -> list[str]:
    """What to fetch of a repository with these settings."""
    needed = [pattern for kind in KINDS for pattern in _patterns(kind, raw)]
    return [CONFIG_NAME, *needed, SHARDS, VOICES_ARCHIVE, f"{VOICES_FOLDER}/*"]


def _patterns(kind: Kind, raw: Mapping[str, Any]) -> tuple[str, ...]:
    name = raw.get(kind.setting)
    if name is None:
        return kind.patterns
    if not is_bare_name(name):
        raise CheckpointError(
            f"{CONFIG_NAME}: {kind.setting} {name!r} is not the bare name of a file", hint="it must lie in the folder"
        )
    return (glob.escape(name),)


def _matches(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Files only: the hub's cache holds links, and some may lead nowhere."""
    for pattern in patterns:
        if files := sorted(path for path in folder.glob(pattern) if path.is_file()):
            return files
    return []
