"""Calls in a row leave nothing behind."""

from __future__ import annotations

import asyncio
import os

import psutil
import pytest

from tests.e2e.sip import scenarios
from tests.e2e.sip.sipp import Sipp
from tests.e2e.sip.sipserver import SipServer

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(300, method="signal")]

CALLS = 500 if os.environ.get("RTC_SOAK") else 50
REMEMBERED = 256
"""Calls that have ended, of which the server can still tell how they went."""
GROWTH_BYTES = (5 << 20) + min(CALLS, REMEMBERED) * (100 << 10)


async def test_many_calls_in_a_row_leave_nothing_behind(server: SipServer, sipp: Sipp) -> None:
    await sipp.call(scenarios.call(100), server.port, calls=20, at_once=5)
    await server.wait_idle()
    process = psutil.Process(server.process.process.pid)
    files, threads, memory_bytes = process.num_fds(), process.num_threads(), process.memory_info().rss

    await sipp.call(scenarios.call(100), server.port, calls=CALLS, at_once=5, within_s=200)
    await server.wait_idle()
    async with asyncio.timeout(15):
        while process.num_fds() > files:  # the questions of this test have connections too
            await asyncio.sleep(0.1)
    assert process.num_threads() <= threads
    assert process.memory_info().rss < memory_bytes + GROWTH_BYTES
