"""One life of the engine process, from its launch until it has ended."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import socket
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.client import Capacity
from rtc_server.engine.process.child import Child
from rtc_server.engine.process.link import Link
from rtc_server.engine.process.messages import (
    FROM_ENGINE,
    TO_ENGINE,
    Drain,
    Exchange,
    Failed,
    FromEngine,
    Heartbeat,
    Launch,
    Leased,
    Refused,
    Release,
    Reserve,
    SampleVoice,
    Started,
    Stop,
    Ticked,
    ToEngine,
    VoiceSampled,
)
from rtc_server.engine.process.telemetry import ForwardedMetrics
from rtc_server.engine.process.wire import WireError, unpack_pcm
from rtc_server.engine.silence import SilenceWatch
from rtc_server.engine.stepper import FrameSpec
from rtc_server.errors import EngineUnavailable
from rtc_server.log import get_logger

log = get_logger(__name__)

WORKER_MODULE = "rtc_server.engine.process.worker"
CHECK_EVERY_S = 0.25
STALE_HEARTBEAT_S = 1.0
"""An engine process of which nothing was heard for so long is not ready. It has four heartbeats in that time."""
EXIT_GRACE_S = 1.0
"""From the end of the socket to the end of the process."""
STOP_PATIENCE_S = 7.0
"""For a step that still runs, and for slots and threads that the stepper has to close."""
HURRY_S = 1.0
"""For one that has nothing to close yet, or does not listen anyway."""
STARTING_AGAIN = "the engine is starting again"

Answer = tuple[Leased | Ticked | VoiceSampled, NDArray[np.int16]]


class Incarnation:
    """An engine process, its socket, and the requests that wait for it. One event loop.

    Args:
        launch: what the process shall build.
        arguments: of the command line.
        restart_after_s: an engine that was not ready for so long ends, so that another can take its place. It may hang
            in a driver, or its device may be in a state that no step gets out of.
    """

    spec: FrameSpec
    """Set by `start`."""

    def __init__(self, launch: Launch, arguments: Sequence[str], *, restart_after_s: float) -> None:
        self._launch = launch
        self._arguments = arguments
        self._hearing = SilenceWatch(launch.lost_after_s)
        self._readiness = SilenceWatch(restart_after_s)
        self._link: Link[FromEngine, ToEngine] = Link(FROM_ENGINE, TO_ENGINE, self._receive, self._on_lost)
        self._child: Child | None = None
        self._watching: asyncio.Task[str] | None = None
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lost = asyncio.Event()
        self._ending = False
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._capacity = Capacity(total=0, in_use=0, draining=False, ready=False)
        self._heard_s = self._ready_s = time.monotonic()
        self._metrics = ForwardedMetrics()

    async def start(self) -> None:
        """Launch, and wait until the engine is built: as long as the process lives.

        Raises: what building it raised; EngineUnavailable, with the process's last words, if it ended meanwhile. Call
        `end` then as well.
        """
        own_end, inherited_end = socket.socketpair()
        with inherited_end:
            try:
                self._child = Child(WORKER_MODULE, self._arguments, inherited_end)
                await self._link.open(own_end)
            except BaseException:
                own_end.close()
                raise
        self._watching = asyncio.create_task(self._watch(self._child), name="engine-process")
        self._link.send(self._launch)
        await asyncio.shield(self._started)

    async def end(self) -> None:
        """Stop the engine and wait until its process has ended, in kindness or not. May be called twice.

        Requests that wait get their answer if the engine still gives one, or else EngineUnavailable.
        """
        self._ending = True
        if self._child is None:
            return
        self._link.send(Stop())
        answers = self._started.done() and self.silent_s < STALE_HEARTBEAT_S
        await self._child.end(STOP_PATIENCE_S if answers else HURRY_S)
        await self.ended()

    async def ended(self) -> str:
        """Wait until the process has ended. How it did, as half a sentence."""
        if self._watching is None:
            return "was never there"
        return await asyncio.shield(self._watching)

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    @property
    def silent_s(self) -> float:
        """Since the last message."""
        return time.monotonic() - self._heard_s

    @property
    def capacity(self) -> Capacity:
        """As last heard of; never ready when that is long ago."""
        if self._lost.is_set():
            return dataclasses.replace(self._capacity, in_use=0, ready=False)
        return dataclasses.replace(self._capacity, ready=self._capacity.ready and self.silent_s < STALE_HEARTBEAT_S)

    def check(self) -> None:
        """Raises: EngineUnavailable if the process is gone, or was silent for too long."""
        if self._lost.is_set():
            raise self._gone()
        if self._is_silent():
            raise self._silent()

    def new_id(self) -> int:
        return next(self._ids)

    async def ask(self, request: Reserve | Exchange | SampleVoice, payload: bytes = b"") -> Answer:
        """The answer, and the sound that comes with it. May be cancelled at any time.

        Raises: what the engine raised; WireError for a request that cannot be sent; EngineUnavailable if the process is
        gone or goes, was silent for too long, or reads so slowly that the request was dropped.
        """
        self.check()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = future
        try:
            if not self._link.send(request, payload):
                raise EngineUnavailable("the engine process does not read what it is sent")
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._give_back(future.result()[0])
            raise
        finally:
            self._waiting.pop(request.id, None)

    def tell(self, message: Release | Drain) -> None:
        """Dropped if the process is gone or does not read: it then has no slot to release, or frees it by itself."""
        self._link.send(message)

    # ---- from the link -----------------------------------------------------------------------------------------------

    def _receive(self, message: FromEngine, payload: bytes) -> None:
        self._heard_s = time.monotonic()
        match message:
            case Failed():
                self._start_failed(message.error.to_error())
                return
            case Started() if not self._started.done():
                self.spec = message.spec
                self._ready_s = self._heard_s
                self._started.set_result(None)
            case Started():
                raise WireError("the engine started twice")
            case Heartbeat():
                self._forward(message)
            case _:
                self._answered(message, payload)
        self._capacity = message.capacity
        if message.capacity.ready:
            self._ready_s = self._heard_s

    def _forward(self, heartbeat: Heartbeat) -> None:
        try:
            self._metrics.update(heartbeat.metrics)
        except ValueError as error:
            raise WireError(f"metrics that are not ours: {error}") from None

    def _answered(self, answer: Leased | Ticked | VoiceSampled | Refused, payload: bytes) -> None:
        future = self._waiting.get(answer.id)
        if future is None or future.done():
            self._give_back(answer)
        elif isinstance(answer, Refused):
            future.set_exception(answer.error.to_error())
        else:
            future.set_result((answer, unpack_pcm(payload, 0 if isinstance(answer, Leased) else answer.rows)))

    def _give_back(self, answer: Leased | Ticked | VoiceSampled | Refused) -> None:
        """Whoever asked has gone."""
        if isinstance(answer, Leased):
            self.tell(Release(answer.lease))

    def _start_failed(self, error: BaseException) -> None:
        if not self._started.done():
            self._started.set_exception(error)
            self._started.exception()  # seen, even if the caller of `start` was cancelled

    def _on_lost(self) -> None:
        self._lost.set()
        self._fail_waiting(self._gone)

    def _gone(self) -> EngineUnavailable:
        if self._ending:
            return EngineUnavailable("the engine has stopped")
        return EngineUnavailable("the engine process has died", hint=STARTING_AGAIN)

    def _is_silent(self) -> bool:
        return self._hearing.is_lost(self._heard_s, time.monotonic())

    def _silent(self) -> EngineUnavailable:
        return EngineUnavailable(f"the engine has been silent for {self.silent_s:.1f} s")

    def _fail_waiting(self, why: Callable[[], EngineUnavailable]) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(why())

    # ---- the watch over the process ----------------------------------------------------------------------------------

    async def _watch(self, child: Child) -> str:
        """Until it has ended. How it did."""
        while not self._lost.is_set() and not child.ended:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):
                    await self._lost.wait()
            if self._started.done():
                self._check_health(child)
        if not await child.wait(EXIT_GRACE_S):
            child.kill()
            await child.wait(EXIT_GRACE_S)
        self._link.abort()  # of a process that ended while a child of it kept the socket open
        self._on_lost()
        self._metrics.end()
        self._start_failed(self._ended_in_loading(child))
        return child.how_it_ended

    def _ended_in_loading(self, child: Child) -> EngineUnavailable:
        if self._ending:
            return EngineUnavailable("the engine was stopped while it was starting")
        hint = f"its last words:\n{child.last_words}" if child.last_words else "it left no word"
        if child.was_killed:
            hint = f"the system kills what takes more memory than there is; {hint}"
        return EngineUnavailable(f"the engine process {child.how_it_ended} while it was loading", hint=hint)

    def _check_health(self, child: Child) -> None:
        if self._is_silent():
            self._fail_waiting(self._silent)
        now = time.monotonic()
        if self._readiness.is_lost(self._ready_s, now) and not self._ending:
            unready_s = round(now - self._ready_s, 1)
            log.error("engine was not ready for too long, its process is ended", pid=child.pid, for_s=unready_s)
            child.kill()
