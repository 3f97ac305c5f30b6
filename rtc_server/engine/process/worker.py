"""The engine process: a `LocalEngine`, and the server at the other end of a socket. Started by `Child`, never by hand.

It ends when the socket does, so that it never outlives its server; on the message Stop; and on SIGTERM. Ctrl-C is the
server's affair. What the engine's constructor raises is told, and ends it as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Coroutine, Sequence

import numpy as np
from numpy.typing import NDArray

from rtc_server import log as logs
from rtc_server.engine.local import LocalEngine
from rtc_server.engine.process.link import Link
from rtc_server.engine.process.messages import (
    FROM_ENGINE,
    TO_ENGINE,
    Drain,
    ErrorReport,
    Exchange,
    Failed,
    FromEngine,
    Heartbeat,
    Launch,
    Leased,
    OutputReport,
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
from rtc_server.engine.process.telemetry import snapshot
from rtc_server.engine.process.wire import WireError, pack_pcm, unpack_pcm
from rtc_server.engine.registry import create
from rtc_server.errors import RtcServerError
from rtc_server.log import get_logger

log = get_logger(__name__)

HEARTBEAT_S = 0.25
FLUSH_PATIENCE_S = 1.0
LOADING_PATIENCE_S = 0.1
"""An engine that is being built holds nothing yet that it would have to put in order."""


def main(argv: Sequence[str] | None = None) -> None:
    """The whole life of the process; does not return."""
    parser = argparse.ArgumentParser(
        prog="rtc_server.engine.process.worker", description="Engine process of an rtc-server."
    )
    parser.add_argument("--fd", type=int, required=True, help="inherited end of a socket pair")
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--log-format", choices=("auto", "json", "text"), default="auto")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable(all_threads=False)  # native code that crashes says where
    logs.configure(arguments.log_level, arguments.log_format)
    own_end = socket.socket(fileno=arguments.fd)
    own_end.set_inheritable(False)  # a process that the engine starts must not keep the socket open
    status = asyncio.run(_serve(own_end))
    sys.stdout.flush()
    logging.shutdown()
    os._exit(status)  # the interpreter's own way out would wait for a stepper that is stuck


async def _serve(own_end: socket.socket) -> int:
    worker = Worker()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.end)
    return await worker.run(own_end)


class Worker:
    """Does for the server what it would do with a `LocalEngine` of its own. One event loop."""

    def __init__(self) -> None:
        self._link: Link[ToEngine, FromEngine] = Link(TO_ENGINE, FROM_ENGINE, self._receive, self._on_lost)
        self._engine: LocalEngine | None = None
        self._serving = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._end = asyncio.Event()
        self._lost = asyncio.Event()
        self._status = 0

    async def run(self, own_end: socket.socket) -> int:
        """Serve until the end. The exit status of the process."""
        await self._link.open(own_end)
        await self._end.wait()
        if self._engine is not None:
            await self._stop(self._engine)
        self._link.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_PATIENCE_S):
                await self._lost.wait()
        return self._status

    async def _stop(self, engine: LocalEngine) -> None:
        if self._serving:
            await engine.stop()
            await asyncio.gather(*self._tasks)  # each has its answer now
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOADING_PATIENCE_S):
                    await engine.stop()

    def end(self) -> None:
        self._end.set()

    def _on_lost(self) -> None:
        self._lost.set()
        self._end.set()

    # ---- from the server ---------------------------------------------------------------------------------------------

    def _receive(self, message: ToEngine, payload: bytes) -> None:
        engine = self._engine
        match message:
            case Stop():
                self.end()
            case Launch() if engine is None:
                self._engine = _engine(message)
                self._do(self._load(self._engine))
            case Launch():
                raise WireError("an engine process has one engine")
            case _ if engine is None:
                raise WireError(f"{message.kind} came before the engine was named")
            case Reserve():
                self._do(self._answer(message.id, self._reserve(engine, message)))
            case Exchange():
                pcm = unpack_pcm(payload, len(message.leases))
                if len(message.live) != len(message.leases):
                    raise WireError(f"{len(message.live)} live flags for {len(message.leases)} leases")
                self._do(self._answer(message.id, self._exchange(engine, message, pcm)))
            case SampleVoice():
                self._do(self._answer(message.id, self._sample_voice(engine, message)))
            case Release():
                self._do(engine.release(message.lease))
            case Drain():
                engine.drain()

    def _do(self, work: Coroutine[None, None, None]) -> None:
        """As a task of its own. Tasks begin in the order of their messages."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self, engine: LocalEngine) -> None:
        try:
            await engine.start()
            # What lives now lives for ever: the collector need not look at it on a live call.
            gc.collect()
            gc.freeze()
            self._link.send(Started(engine.spec, engine.capacity()))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # whatever an engine of somebody else's does
            if not isinstance(error, RtcServerError):
                log.exception("engine does not start")
            self._link.send(Failed(ErrorReport.of(error)))
            self._status = 1
            self.end()
        else:
            self._serving = True
            self._do(self._beat(engine))

    async def _beat(self, engine: LocalEngine) -> None:
        while not self._end.is_set():
            self._link.send(Heartbeat(engine.capacity(), snapshot()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._end.wait()

    async def _reserve(self, engine: LocalEngine, request: Reserve) -> None:
        lease = await engine.reserve(request.prompt)
        if not self._link.send(Leased(request.id, lease, engine.capacity())):
            await engine.release(lease)

    async def _exchange(self, engine: LocalEngine, request: Exchange, pcm: NDArray[np.int16]) -> None:
        result = await engine.exchange(request.leases, request.live, request.seq, pcm)
        next_tick_at_s = time.monotonic() + result.next_tick_in_s
        sound = [output.pcm for output in result.outputs if output.pcm is not None]
        outputs = tuple(OutputReport.of(output) for output in result.outputs)
        answer = Ticked(request.id, result.tick, next_tick_at_s, result.step_s, result.shed, outputs, engine.capacity())
        self._link.send(answer, pack_pcm(sound))

    async def _sample_voice(self, engine: LocalEngine, request: SampleVoice) -> None:
        frames = await engine.voice_sample(request.voice)
        rows = () if frames is None else tuple(frames)
        self._link.send(VoiceSampled(request.id, len(rows), engine.capacity()), pack_pcm(rows))

    async def _answer(self, request_id: int, work: Coroutine[None, None, None]) -> None:
        """Let `work` answer a request, or tell what it raised."""
        try:
            await work
        except Exception as error:
            if not isinstance(error, RtcServerError):
                log.exception("request failed")
            assert self._engine is not None
            self._link.send(Refused(request_id, ErrorReport.of(error), self._engine.capacity()))


def _engine(launch: Launch) -> LocalEngine:
    # `create` as well is called on the engine thread: what it raises comes out of `start` like everything else.
    return LocalEngine(
        lambda: create(launch.engine, launch.options)(), engine_id=launch.engine_id, lost_after_s=launch.lost_after_s
    )


if __name__ == "__main__":
    main()
