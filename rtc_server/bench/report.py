"""Printing runs: a table for people, JSON lines for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from rtc_server.bench.figures import Figures

Row = dict[str, Any]

RUNS_PER_TABLE = 4


class Report:
    """Prints runs as they come.

    A table has a line per figure and a column per run, since there are more figures than runs. `shown` are (key, name)
    of its figures; JSON lines carry every key.
    """

    def __init__(self, bench: str, shown: Sequence[tuple[str, str]], json_lines: bool) -> None:
        self._bench = bench
        self._shown = shown
        self._json = json_lines
        self._rows: list[Row] = []
        self._console = Console(highlight=False)

    def say(self, text: str) -> None:
        """For people only."""
        if not self._json:
            self._console.print(text, style="dim")

    def add(self, target: str, run: int | str, figures: Figures) -> None:
        row: Row = {"bench": self._bench, "server": target, "run": run, **figures}
        if self._json:
            self._line(row)
            return
        self._rows.append(row)
        if len(self._rows) == RUNS_PER_TABLE:
            self._flush_table()

    def add_ratios(self, peer: str, ratios: Figures) -> None:
        """How many times better we are than `peer`, figure by figure."""
        if self._json:
            self._line({"bench": self._bench, "server": peer, "run": "ratio", **ratios})
            return
        self._flush_table()
        told = ", ".join(f"{name} {_cell(value)}" for name, value in ratios.items())
        self._console.print(f"{peer} over ours: {told}")

    def add_carried(self, target: str, calls: int) -> None:
        """The greatest size that a server carried on time."""
        if self._json:
            self._line({"bench": self._bench, "server": target, "run": "carried", "calls": calls})
            return
        self._flush_table()
        self._console.print(f"{target}: {calls} calls carried (99 % of the packets came, less than 20 ms late)")

    def finish(self) -> None:
        self._flush_table()

    def _flush_table(self) -> None:
        if not self._rows:
            return
        table = Table("")
        for row in self._rows:
            best = row["run"] == "best"
            run = f"run {row['run']}" if isinstance(row["run"], int) else row["run"]
            table.add_column(f"{row['server']}\n{run}", style="bold" if best else "")
        for key, name in self._shown:
            table.add_row(name, *(_cell(row.get(key)) for row in self._rows))
        self._console.print(table)
        self._rows.clear()

    @staticmethod
    def _line(row: Row) -> None:
        print(json.dumps(row), flush=True)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) and abs(value) >= 10 else str(value)
