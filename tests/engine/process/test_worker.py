"""The engine process's own side, in this process: what it does with what comes over its socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import TypeVar

import numpy as np
import pytest

from rtc_server.engine.client import Lease, SlotStatus
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
    Started,
    Stop,
    Ticked,
    ToEngine,
)
from rtc_server.engine.process.wire import pack_pcm, unpack_pcm
from rtc_server.engine.process.worker import Worker
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, SessionPrompt
from tests.engine.steppers import LOADING, OBEDIENT

Expected = TypeVar("Expected", Started, Failed, Leased, Ticked, Refused, Heartbeat)
LEASE = Lease("engine", "incarnation", 0, "token")


class Server:
    """The other side of a worker."""

    def __init__(self) -> None:
        self.link: Link[FromEngine, ToEngine] = Link(FROM_ENGINE, TO_ENGINE, self._receive, lambda: None)
        self._received: asyncio.Queue[tuple[FromEngine, bytes]] = asyncio.Queue()

    def _receive(self, message: FromEngine, payload: bytes) -> None:
        self._received.put_nowait((message, payload))

    async def answer(self, kind: type[Expected]) -> tuple[Expected, bytes]:
        """The next one of its kind; heartbeats and the like are passed over."""
        async with asyncio.timeout(20):
            while True:
                message, payload = await self._received.get()
                if isinstance(message, kind):
                    return message, payload

    async def launch(self, engine: str = OBEDIENT, model: str | None = None) -> None:
        self.link.send(Launch(engine, EngineOptions(slots=2, model=model), "engine", 5.0))


@contextlib.asynccontextmanager
async def _working() -> AsyncIterator[tuple[Server, asyncio.Task[int]]]:
    ours, theirs = socket.socketpair()
    server, worker = Server(), asyncio.create_task(Worker().run(theirs))
    await server.link.open(ours)
    try:
        yield server, worker
    finally:
        server.link.abort()
        async with asyncio.timeout(20):
            await worker


async def test_it_serves_until_it_is_told_to_stop() -> None:
    async with _working() as (server, worker):
        await server.launch()
        started, _ = await server.answer(Started)
        assert (started.spec.name, started.capacity.total, started.capacity.ready) == ("obedient", 2, True)
        server.link.send(Reserve(1, SessionPrompt()))
        leased, _ = await server.answer(Leased)
        assert (leased.id, leased.lease.engine_id, leased.capacity.in_use) == (1, "engine", 1)
        pcm = np.full((1, FRAME_SAMPLES), 7, np.int16)
        for request_id in range(2, 12):
            server.link.send(Exchange(request_id, (leased.lease,), (True,), request_id), pack_pcm(pcm))
            ticked, payload = await server.answer(Ticked)
            assert ticked.id == request_id
        assert ticked.outputs[0].status is SlotStatus.LIVE
        np.testing.assert_array_equal(unpack_pcm(payload, 1), pcm)
        server.link.send(Release(leased.lease))
        server.link.send(Drain())
        server.link.send(Reserve(99, SessionPrompt()))
        refused, _ = await server.answer(Refused)
        assert (refused.id, refused.error.name, refused.capacity.draining) == (99, "EngineDraining", True)
        server.link.send(Stop())
        assert await worker == 0


async def test_it_tells_how_it_is_four_times_a_second() -> None:
    async with _working() as (server, _):
        await server.launch()
        heartbeats = [(await server.answer(Heartbeat))[0] for _ in range(3)]
        assert all(heartbeat.capacity.ready for heartbeat in heartbeats)
        assert "TICK_SECONDS" in heartbeats[0].metrics


async def test_who_waits_when_it_is_stopped_is_answered() -> None:
    async with _working() as (server, worker):
        await server.launch()
        await server.answer(Started)
        server.link.send(Exchange(1, (LEASE,), (True,), 0), bytes(3840))
        server.link.send(Stop())
        refused, _ = await server.answer(Refused)
        assert (refused.id, refused.error.name, refused.error.message) == (
            1,
            "EngineUnavailable",
            "the engine has stopped",
        )
        assert await worker == 0


async def test_it_ends_with_its_socket() -> None:
    async with _working() as (server, worker):
        await server.launch()
        await server.answer(Started)
        server.link.abort()
        assert await worker == 0


async def test_it_ends_with_its_socket_before_it_has_an_engine() -> None:
    async with _working() as (_, worker):
        await asyncio.sleep(0)
    assert worker.result() == 0


async def test_an_engine_that_cannot_be_built_is_told_and_ends_it() -> None:
    async with _working() as (server, worker):
        await server.launch(LOADING, model="refuse")
        failed, _ = await server.answer(Failed)
        assert (failed.error.name, failed.error.hint) == ("ConfigError", "set --slots 1")
        assert await worker == 1


async def test_nobody_is_served_while_it_loads() -> None:
    async with _working() as (server, _):
        await server.launch()
        server.link.send(Reserve(1, SessionPrompt()))
        refused, _ = await server.answer(Refused)
        assert refused.error.name == "EngineUnavailable"


@pytest.mark.parametrize(
    ("message", "payload"),
    [
        (Exchange(1, (LEASE,), (True,), 0), bytes(3838)),
        (Exchange(1, (LEASE,), (True, True), 0), bytes(3840)),
        (Exchange(1, (LEASE,), (True,), 0), b""),
        (Launch("echo", EngineOptions(), "engine", 5.0), b""),
    ],
    ids=["length", "flags", "nothing", "launch"],
)
async def test_what_makes_no_sense_ends_it(message: ToEngine, payload: bytes) -> None:
    async with _working() as (server, worker):
        await server.launch()
        await server.answer(Started)
        server.link.send(message, payload)
        async with asyncio.timeout(20):
            assert await worker == 0


async def test_what_comes_before_the_engine_is_named_ends_it() -> None:
    async with _working() as (server, worker):
        server.link.send(Reserve(1, SessionPrompt()))
        async with asyncio.timeout(20):
            assert await worker == 0
