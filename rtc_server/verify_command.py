"""``rtc-server verify``: does this machine's model compute what the reference computed?"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rtc_server import log
from rtc_server.errors import ConfigError

if TYPE_CHECKING:
    from rtc_server.engine.personaplex.verify.report import Group, Report

MARKS = {True: Text("ok", style="green"), False: Text("NO", style="bold red"), None: Text("--", style="yellow")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="golden tensors, with the weights that they belong to")
    parser.add_argument("--device", metavar="NAME", help="cuda, cuda:1, cpu (default: the first GPU, else cpu)")
    parser.add_argument(
        "--dtype",
        choices=("f32", "bf16", "f16"),
        default="f32",
        help="limits bind in f32 (default); others tell errors",
    )
    parser.add_argument("--weights", choices=("full", "int8"), default="full", help="int8: tell the error of it")
    parser.add_argument("--kv", choices=("full", "int8"), default="full", help="likewise, of what a slot remembers")
    parser.add_argument("--json", action="store_true", help="one JSON object a group, and a summary")


def run_arguments(arguments: argparse.Namespace) -> int:
    """For a parser that `add_arguments` has filled. Returns 0 when every group holds, else 1.

    Raises: ConfigError for a folder that cannot be used, and where the engine's packages are missing.
    """
    log.configure("warning")
    try:
        from rtc_server.engine.personaplex.verify.run import verify
    except ModuleNotFoundError as error:
        hint = "pip install '.[personaplex]' in the folder of the source brings it"
        raise ConfigError(f"verify needs the package {error.name}", hint=hint) from None
    console = Console(stderr=True)
    with console.status("comparing") as status:
        report = verify(
            arguments.folder,
            device=arguments.device,
            dtype=arguments.dtype,
            weight_bits=8 if arguments.weights == "int8" else 16,
            kv_bits=8 if arguments.kv == "int8" else 16,
            started=lambda part: status.update(f"comparing {part}"),
        )
    if arguments.json:
        for group in report.groups:
            print(json.dumps(group.to_json()))
        print(json.dumps(report.to_json()), flush=True)
    else:
        show(report, Console(highlight=False))
    return 0 if report.ok else 1


def show(report: Report, console: Console) -> None:
    """A table with a line a group, and what it comes to."""
    table = Table("", "group", "error", "limit", "tokens", "wrong", box=None)
    table.columns[1].no_wrap = True
    for column in table.columns[2:]:
        column.justify = "right"
    for group in report.groups:
        table.add_row(*_cells(group))
    console.print(table)
    for group in report.groups:
        for remark in _remarks(group):
            console.print(
                Text(f"{group.name}: {remark}", style="red" if group.ok is False else "yellow"), soft_wrap=True
            )
    for note in report.notes:
        console.print(Text(note, style="yellow"), soft_wrap=True)
    on = ", ".join(f"{name} {value}" for name, value in report.subject.items())
    groups, missed = len(report.compared), len(report.missed)
    if not report.binding:
        verdict = "errors against float32, for information" if report.ok else f"{missed} of {groups} groups broken"
    else:
        verdict = f"all {groups} groups hold" if report.ok else f"{missed} of {groups} groups do not hold"
    console.print(Text(f"{verdict} ({on})", style="bold green" if report.ok else "bold red"), soft_wrap=True)


def _cells(group: Group) -> tuple[Text | str, ...]:
    if group.skipped:
        return MARKS[None], group.name, "", "", "", ""
    errors = group.values > 0 or math.isnan(group.max_error)
    return (
        MARKS[group.ok],
        group.name,
        f"{group.max_error:.1e}" if errors else "",
        f"{group.limit:.0e}" if group.limit is not None and group.binding else "",
        str(group.tokens) if group.tokens else "",
        str(group.tokens_wrong) if group.tokens else "",
    )


def _remarks(group: Group) -> list[str]:
    if group.skipped:
        return [group.skipped]
    wrong = (
        [f"{group.tokens_wrong} of {group.tokens} tokens wrong, first {group.first_wrong}"]
        if group.tokens_wrong
        else []
    )
    return wrong + group.problems[:3]
