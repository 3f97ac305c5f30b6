"""``rtc-server voices``: which voices there are and what is wrong with the others; prepared voices from other files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rtc_server import log
from rtc_server.errors import ConfigError, EngineError

if TYPE_CHECKING:
    from rtc_server.engine.personaplex.checkpoint import Checkpoint

Line = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("list", "convert"), default="list", help="default: list")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="to convert: .pt, .wav, .safetensors")
    parser.add_argument("--to", type=Path, metavar="DIR", help="folder for the converted voices")
    parser.add_argument("--voices", type=Path, metavar="DIR", help="folder with voices of your own")
    parser.add_argument("--model", metavar="NAME|DIR", help="whose voices to list, or to convert recordings for")
    parser.add_argument("--revision", metavar="R", help="branch, tag or commit of the model's repository")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run_arguments(arguments: argparse.Namespace) -> int:
    """For a parser that `add_arguments` has filled. Returns 0, or 1 when a file could not be converted.

    Raises: ConfigError for arguments that do not fit together; EngineError for the model, or an archive of voices.
    """
    if arguments.action == "list" and arguments.files:
        raise ConfigError(f"list takes no file ({arguments.files[0]})", hint="name its folder with --voices")
    if arguments.action == "convert" and (not arguments.files or arguments.to is None):
        raise ConfigError("nothing to convert", hint="use: rtc-server voices convert FILE... --to DIR")
    log.configure("warning")  # to standard error, so that nothing but JSON is on the standard output
    try:
        if arguments.action == "list":
            lines = _listed(arguments.voices, arguments.model, arguments.revision)
            _print(lines, arguments.json, ("name", "kind", "seconds", "problem"))
            return 0
        lines = _converted(arguments.files, arguments.to, arguments.model, arguments.revision)
    except ModuleNotFoundError as error:
        hint = "pip install '.[personaplex]' in the folder of the source brings it"
        raise EngineError(f"voices need the package {error.name}", hint=hint) from error
    _print(lines, arguments.json, ("file", "seconds", "problem"))
    return int(any(line["problem"] for line in lines))


def _listed(own: Path | None, model: str | None, revision: str | None) -> list[Line]:
    from rtc_server.engine.personaplex.checkpoint import at_hand
    from rtc_server.engine.personaplex.presence import DEFAULT_MODEL
    from rtc_server.engine.personaplex.voices import shelf_of

    if model is None and own is None:
        if at_hand(DEFAULT_MODEL, revision) is None:
            raise ConfigError(
                f"whose voices? {DEFAULT_MODEL} is not on this machine", hint="name a --voices folder or a --model"
            )
        model = DEFAULT_MODEL
    shelf = shelf_of(_checkpoint(model, revision), own)
    return [
        {
            "name": voice.name,
            "kind": voice.kind,
            "file": str(voice.file),
            "seconds": round(voice.seconds, 2),
            "default": voice.name == next(iter(shelf.names), None) and not voice.problem,
            "problem": voice.problem or None,
        }
        for voice in shelf.listed
    ]


def _converted(files: Iterable[Path], folder: Path, model: str | None, revision: str | None) -> list[Line]:
    from rtc_server.engine.personaplex.voicefiles import VoiceUnusable

    checkpoint = _checkpoint(model, revision)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--to {folder} cannot be made: {error.strerror}", hint="name another folder") from error
    lines: list[Line] = []
    for file in files:
        line: dict[str, Any] = {"file": str(file), "to": None, "seconds": 0.0, "problem": None}
        try:
            line["to"], line["seconds"] = _convert(file, folder, checkpoint)
        except VoiceUnusable as error:
            line["problem"] = str(error)
        except OSError as error:
            line["problem"] = f"it cannot be written to {folder}: {error.strerror}"
        lines.append(line)
    return lines


def _convert(file: Path, folder: Path, checkpoint: Checkpoint | None) -> tuple[str, float]:
    """Where the prepared voice is now, and its length in seconds."""
    from rtc_server.engine.personaplex.convert import voice_from
    from rtc_server.engine.personaplex.voicefiles import VoiceAudio, VoiceUnusable, name_of, write_voice
    from rtc_server.engine.personaplex.voicemaker import make_voice
    from rtc_server.engine.personaplex.voices import check_model

    if name_of(file.name) is None:
        raise VoiceUnusable("it needs a name of 1 to 64 letters, digits, _ and - before .pt, .wav or .safetensors")
    voice = voice_from(file)
    if isinstance(voice, VoiceAudio):
        if checkpoint is None:
            raise VoiceUnusable("a recording is converted for one model", hint="say which with --model")
        voice = make_voice(checkpoint, voice)
    check_model(voice, checkpoint.config.lm if checkpoint is not None else None)
    to = folder / f"{file.stem}.safetensors"
    write_voice(to, voice)
    return str(to), round(voice.seconds, 2)


def _checkpoint(model: str | None, revision: str | None) -> Checkpoint | None:
    from rtc_server.engine.personaplex.checkpoint import locate

    return None if model is None else locate(model, revision)


def _print(lines: Iterable[Line], as_json: bool, columns: tuple[str, ...]) -> None:
    if as_json:
        for line in lines:
            print(json.dumps(line))
        return
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column("state" if column == "problem" else column, overflow="fold")
    for line in lines:
        state = Text(line["problem"], "yellow") if line["problem"] else Text("ok", "green")
        if line.get("default"):
            state.append(", the default", "dim")
        cells = [Text(_shown(line[column])) for column in columns if column != "problem"]
        table.add_row(*cells, state)
    Console().print(table)


def _shown(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
