from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Wait until `condition` is true; for real peers, whose time is not ours."""
    until_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < until_s, "did not happen in time"
        await asyncio.sleep(0.005)
