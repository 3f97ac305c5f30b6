"""One task that sends for all calls: a packet each 20 ms a call, the calls spread over the 20 ms."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtc_server.bench.signals import PACKET_S

SLICES = 8
SLICE_S = PACKET_S / SLICES


class Microphone(Protocol):
    def send_packet(self, due_s: float) -> None:
        """The packet whose last sample was captured at `due_s`."""


class Pacer:
    """Absolute deadlines: a late packet never delays the ones behind it, and none is left out. Loop thread only."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._slices: list[list[Microphone]] = [[] for _ in range(SLICES)]
        self._lateness_s: list[float] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="bench pacer")

    async def stop(self) -> None:
        """Also raises what broke the pacer, if anything did."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            if not self._task.cancelled() and (error := self._task.exception()) is not None:
                raise error

    def add(self, microphone: Microphone) -> None:
        """Into the slice that has the fewest."""
        min(self._slices, key=len).append(microphone)

    def remove(self, microphone: Microphone) -> None:
        for members in self._slices:
            if microphone in members:
                members.remove(microphone)

    def reset(self) -> None:
        self._lateness_s.clear()

    def lateness_ms(self) -> NDArray[np.float64]:
        """How late each slice that had someone to send for was sent, since `reset`."""
        return np.asarray(self._lateness_s) * 1e3

    async def _run(self) -> None:
        start_s = self._clock()
        edge = 0
        while True:
            edge += 1
            due_s = start_s + edge * SLICE_S
            ahead_s = due_s - self._clock()
            if ahead_s > 0:
                await self._sleep(ahead_s)
            elif edge % SLICES == 0:
                await self._sleep(0)  # behind: let what came in meanwhile be read
            members = self._slices[edge % SLICES]
            if members:
                self._lateness_s.append(self._clock() - due_s)
            for microphone in members:
                microphone.send_packet(due_s)
