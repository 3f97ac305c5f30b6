"""How far a download or a load is: a bar on a terminal, nothing in a log."""

from __future__ import annotations

import sys
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn


class Meter(Protocol):
    """One task at a time. Called from the thread that works on it."""

    def start(self, task: str, total_bytes: int) -> None: ...

    def advance(self, more_bytes: int) -> None: ...

    def stop(self) -> None:
        """The task has ended, well or not. May be called twice."""


class SilentMeter:
    def start(self, task: str, total_bytes: int) -> None:
        pass

    def advance(self, more_bytes: int) -> None:
        pass

    def stop(self) -> None:
        pass


class TerminalMeter:
    """A bar with size, speed and the time that remains. It vanishes when its task is done."""

    def __init__(self, stream: TextIO) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, TimeRemainingColumn(), console=Console(file=stream), transient=True)
        self._task = self._progress.add_task("", visible=False)

    def start(self, task: str, total_bytes: int) -> None:
        self._progress.reset(self._task, description=task, total=total_bytes, visible=True)
        self._progress.start()

    def advance(self, more_bytes: int) -> None:
        self._progress.advance(self._task, more_bytes)

    def stop(self) -> None:
        self._progress.stop()


def meter_for(stream: TextIO | None = None) -> Meter:
    """A bar when the stream (standard error, where nothing else is said) is a terminal."""
    stream = stream or sys.stderr
    return TerminalMeter(stream) if stream.isatty() else SilentMeter()
