"""Runs `Timers` on the event loop: the only place where SIP's timers meet real time."""

from __future__ import annotations

import asyncio

from rtc_server.transports.sip.transaction.timers import Timers


class TimerLoop:
    """Sleeps until the next timer is due. Event loop's thread only."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timers.on_earlier = self._sleep
        self._sleep()

    def stop(self) -> None:
        """May be called twice."""
        self._timers.on_earlier = None
        if self._handle is not None:
            self._handle.cancel()

    def _sleep(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        next_s = self._timers.next_s
        if next_s is not None:
            delay_s = max(0.0, next_s - self._timers.now_s)
            self._handle = asyncio.get_running_loop().call_later(delay_s, self._run)

    def _run(self) -> None:
        self._timers.run_due()
        if self._timers.on_earlier is not None:
            self._sleep()
