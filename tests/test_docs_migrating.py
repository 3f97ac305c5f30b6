"""Whatever docs/migrating.md names is there: files, tests, flags, settings, and commands that can be given."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from rtc_server import cli
from rtc_server.config import Settings

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "migrating.md").read_text(encoding="utf-8")

CODE = re.compile(r"`([^`]+)`")
FILE = re.compile(r"[\w./-]+\.(?:py|js|md)")
FLAG = re.compile(r"--[a-z][a-z0-9-]*")
SETTING = re.compile(r"\bRTC_([A-Z_]+)\b")


class Row(NamedTuple):
    line: int
    there: str
    here: str
    tests: str


def rows() -> Iterator[Row]:
    """The rows of the tables that say where something is and which test proves it."""
    proves = False
    for line, text in enumerate(PAGE.splitlines(), 1):
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        if not text.startswith("|"):
            proves = False
        elif cells[-1] == "test":
            proves = True
        elif proves and set(text) - set("|- "):
            yield Row(line, *cells)


ROWS = tuple(rows())


def code_in(cells: str) -> list[str]:
    return CODE.findall(cells)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Functions and state machines at the top of a test file."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(names)


def flags_of(parser: argparse.ArgumentParser) -> set[str]:
    found = {option for action in parser._actions for option in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                found |= flags_of(sub)
    return found


def commands() -> list[str]:
    """Each ``rtc-server`` command line of the page."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    typed = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return [command for command in (*typed, *CODE.findall(PAGE)) if command.startswith("rtc-server ")]


def test_there_is_a_test_for_every_line_of_the_tables() -> None:
    assert len(ROWS) > 100
    assert not [row for row in ROWS if "::" not in row.tests]


def test_every_test_exists() -> None:
    missing = []
    for row in ROWS:
        for name in code_in(row.tests):
            path, _, function = name.partition("::")
            file = ROOT / "tests" / path
            if not file.is_file() or not function.lower().startswith("test") or function not in names_in(file):
                missing.append(f"line {row.line}: {name}")
    assert not missing


def test_every_file_exists() -> None:
    named = [(row.line, code) for row in ROWS for code in code_in(row.here) if FILE.fullmatch(code)]
    assert len(named) > 30
    assert not [place for place in named if not any((ROOT / base / place[1]).is_file() for base in ("rtc_server", ""))]


def test_every_link_leads_somewhere() -> None:
    assert not [
        target
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", PAGE)
        if "://" not in target and not (ROOT / "docs" / target).exists()
    ]


def test_every_flag_of_ours_exists() -> None:
    known = flags_of(cli._parser())
    named = [(row.line, flag) for row in ROWS for code in code_in(row.here) for flag in FLAG.findall(code)]
    assert len(named) > 20
    assert not [place for place in named if place[1] not in known]


def test_every_setting_of_ours_exists() -> None:
    sections = [field.annotation for field in Settings.model_fields.values()]
    known = {name.upper() for section in sections for name in section.model_fields}  # type: ignore[union-attr]
    assert not set(SETTING.findall(PAGE)) - known


@pytest.mark.parametrize("command", commands())
def test_every_command_of_ours_can_be_given(command: str) -> None:
    cli._parser().parse_args(shlex.split(command, comments=True)[1:])
