"""docs/telephony.md in pieces: its blocks, its commands and its tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "telephony.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def commands(page: str = PAGE) -> Iterator[str]:
    """Each with its continuation lines; what is typed into a program of its own has that one's prompt."""
    for block in blocks("console", page):
        yield from (line.removeprefix("$ ") for line in block.replace("\\\n", "").splitlines())


def section(title: str) -> str:
    """What stands below a heading of the second rank."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows_below(title: str) -> list[list[str]]:
    """The cells of the next table, without its head."""
    text = PAGE.partition(f"\n{title}")[2].partition("\n|")[2]
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def table_below(title: str) -> dict[str, list[str]]:
    """Rows by the names in their first cell; where it has several, each of them."""
    return {name: others for first, *others in rows_below(title) for name in names_in(first)}
