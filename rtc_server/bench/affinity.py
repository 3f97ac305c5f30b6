"""Pinning processes to cores, where the platform has it."""

from __future__ import annotations

import os
import sys


def pin(pid: int, cpu: int | None) -> int | None:
    """Keep a process (0: this one) on one core. Returns the core, or None when it was not pinned.

    Not pinned is: `cpu` None, a platform that cannot, or a core that this process may not use.
    """
    if cpu is None or not sys.platform.startswith("linux") or cpu not in os.sched_getaffinity(0):
        return None
    os.sched_setaffinity(pid, {cpu})
    return cpu
