"""Pinning processes to cores, where the platform has it."""

from __future__ import annotations

import os
import sys


def usable(cpu: int | None) -> int | None:
    """The core itself, or None: not asked for, a platform that cannot pin, or a core this process may not use."""
    if cpu is None or not sys.platform.startswith("linux") or cpu not in os.sched_getaffinity(0):
        return None
    return cpu


def pin(pid: int, cpu: int | None) -> int | None:
    """Keep a process (0: this one) on one core. Returns the core, or None when it was not pinned."""
    if usable(cpu) is not None and cpu is not None:
        os.sched_setaffinity(pid, {cpu})
        return cpu
    return None
