"""Calls that come and go, one after the other, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import ClientWebSocketResponse

from rtc_server.server import Server

Call = Callable[[ClientWebSocketResponse, int], Awaitable[None]]
"""What one of them does with its socket; its number says which of them it is."""


async def come_and_go(server: Server, path: str, call: Call) -> None:
    """500 calls in full, 50 otherwise, as many at a time as there are slots; each third leaves without a goodbye. In
    the end no task, thread or descriptor is left of any."""
    rounds = 500 if os.environ.get("RTC_SOAK") else 50
    slots = server.engine.capacity().total
    url = server.url.replace("localhost", "127.0.0.1") + path  # a name is resolved in threads that stay

    async def come(number: int) -> None:
        async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
            await call(socket, number)
            if number % 3 == 0:
                socket._response.connection.transport.abort()  # type: ignore[union-attr]

    async def all_gone() -> None:
        await _until(lambda: server.engine.capacity().in_use == 0 and not len(server.registry))

    await come(1)
    await all_gone()
    before = _held()
    for first in range(0, rounds, slots):
        await asyncio.gather(*(come(first + offset) for offset in range(slots)))
        await all_gone()
    assert server.conductor.sessions == {}
    await _until(lambda: all(now <= before[what] for what, now in _held().items()))


def _held() -> dict[str, int]:
    tasks = [task for task in asyncio.all_tasks() if not task.done()]
    return {"tasks": len(tasks), "threads": threading.active_count(), "files": len(os.listdir("/proc/self/fd"))}


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.005)
