"""What a process costs: CPU seconds and resident memory, from /proc. None where there is no /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")


class Usage(NamedTuple):
    cpu_s: float
    """User and system time of the process, all threads, and its children that still run."""
    rss_mb: float


def read_usage(pid: int, proc: Path = PROC) -> Usage | None:
    """None when the process is gone, or the platform keeps no such files."""
    total_cpu_s, total_rss_mb, found = 0.0, 0.0, False
    for each in [pid, *_descendants(pid, proc)]:
        usage = _read_one(each, proc)
        if usage is not None:
            found = found or each == pid
            total_cpu_s += usage.cpu_s
            total_rss_mb += usage.rss_mb
    return Usage(total_cpu_s, total_rss_mb) if found else None


def _read_one(pid: int, proc: Path) -> Usage | None:
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # proc_pid_stat(5): the name before may hold anything
    user_ticks, system_ticks, rss_pages = int(fields[11]), int(fields[12]), int(fields[21])
    return Usage(
        (user_ticks + system_ticks) / os.sysconf("SC_CLK_TCK"),
        rss_pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
    )


def _descendants(pid: int, proc: Path) -> list[int]:
    found: list[int] = []
    try:
        for task in (proc / str(pid) / "task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_descendants(child, proc)]
    except OSError:
        return found
    return found


def load_of_machine() -> float | None:
    """Processes that ran or waited in the last minute, on average. None where the system does not tell."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
