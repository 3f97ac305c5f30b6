"""What is logged meanwhile, whatever earlier tests have made of logging."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict

_PROXY = type(structlog.get_logger())


@contextmanager
def captured_logs() -> Iterator[list[EventDict]]:
    """As `capture_logs`, which misses loggers that were used first under a configuration before the last one."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("rtc_server"):
            for value in vars(module).values():
                if type(value) is _PROXY:
                    vars(value).pop("bind", None)
    with capture_logs() as entries:
        yield entries


def assert_no_errors(entries: list[EventDict]) -> None:
    """No defect of ours among them."""
    bad = [entry for entry in entries if entry["log_level"] in ("error", "critical") or entry.get("exc_info")]
    assert not bad, bad


def entry_of(entries: list[EventDict], event: str) -> EventDict:
    """The only one of this text."""
    (entry,) = [entry for entry in entries if entry["event"] == event]
    return entry
