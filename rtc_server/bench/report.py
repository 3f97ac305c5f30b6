"""Printing runs: a table for people, JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from rtc_server.bench.figures import Figures

Row = dict[str, Any]


class Report:
    """Prints rows as they come. `columns` are (key, heading) of the table; JSON lines carry every key."""

    def __init__(self, bench: str, columns: Sequence[tuple[str, str]], json_lines: bool) -> None:
        self._bench = bench
        self._columns = columns
        self._json = json_lines
        self._rows: list[Row] = []
        self._console = Console()

    def say(self, text: str) -> None:
        """For people only."""
        if not self._json:
            self._console.print(text, style="dim", highlight=False)

    def add(self, target: str, run: int | str, figures: Figures) -> None:
        row: Row = {"bench": self._bench, "server": target, "run": run, **figures}
        if self._json:
            self._line(row)
        self._rows.append(row)

    def add_ratios(self, peer: str, ratios: Figures) -> None:
        """How many times better we are than `peer`, figure by figure."""
        row: Row = {"bench": self._bench, "server": peer, "run": "ratio", **ratios}
        if self._json:
            self._line(row)
        else:
            self._flush_table()
            told = ", ".join(f"{name} {value}" for name, value in ratios.items())
            self._console.print(f"against {peer}: {told}", highlight=False)

    def add_carried(self, target: str, calls: int) -> None:
        """The greatest size that a server carried on time."""
        if self._json:
            self._line({"bench": self._bench, "server": target, "run": "carried", "calls": calls})
        else:
            self._flush_table()
            self._console.print(f"{target}: {calls} calls carried with their packets on time", highlight=False)

    def finish(self) -> None:
        if not self._json:
            self._flush_table()

    def _flush_table(self) -> None:
        if not self._rows:
            return
        table = Table("server", "run", *(heading for _, heading in self._columns))
        for row in self._rows:
            cells = [_cell(row.get(key)) for key, _ in self._columns]
            table.add_row(str(row["server"]), str(row["run"]), *cells, style="bold" if row["run"] == "best" else "")
        self._console.print(table)
        self._rows.clear()

    @staticmethod
    def _line(row: Row) -> None:
        print(json.dumps(row), flush=True)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) and abs(value) >= 10 else str(value)
