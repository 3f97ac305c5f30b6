"""A house whose engine is an echo and ticks faster than time, and a tool that talks to its raw endpoint."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiohttp import ClientWebSocketResponse, WSMsgType
from aiohttp.test_utils import TestClient
from numpy.typing import NDArray
from pydantic import SecretStr

from rtc_server.config import HttpSettings
from rtc_server.engine.client import Lease, TickResult
from rtc_server.engine.stepper import FRAME_SAMPLES
from rtc_server.http.app import create_app
from rtc_server.http.auth import Gate
from rtc_server.http.duplex import Duplex
from rtc_server.http.info import Info
from rtc_server.http.page import Page
from rtc_server.http.sessions import Sessions
from rtc_server.http.sockets import SocketLimits
from rtc_server.media.pcm import to_float, to_int16
from rtc_server.session.session import Session
from rtc_server.transports.webrtc.connectivity import Connectivity
from rtc_server.transports.webrtc.turn import IceServers
from tests.http.conftest import TestSite
from tests.session.conftest import House
from tests.session.fakes import FakeEngine

PATH = "/v1/audio/duplex"
TICK_S = 0.004
WITHIN_S = 10.0
DTYPES: dict[str, str] = {"f32": "<f4", "s16": "<i2"}

Samples = NDArray[np.float32]


class EchoEngine(FakeEngine):
    """What it hears it says, at once."""

    async def exchange(
        self, leases: Sequence[Lease], live: Sequence[int], seq: int, pcm: NDArray[np.int16]
    ) -> TickResult:
        result = await super().exchange(leases, live, seq, pcm)
        outputs = zip(result.outputs, pcm, strict=True)
        echoed = tuple(dataclasses.replace(out, pcm=row) if out.pcm is not None else out for out, row in outputs)
        return dataclasses.replace(result, outputs=echoed)


def through_int16(pcm: Samples) -> Samples:
    """What the engine's door makes of a sound."""
    return to_float(to_int16(pcm))


def noise(samples: int, seed: int = 1) -> Samples:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, samples).astype(np.float32)


def padded(pcm: Samples) -> Samples:
    return np.concatenate([pcm, np.zeros(-len(pcm) % FRAME_SAMPLES, np.float32)])


@dataclass
class Line:
    """The endpoint, and the world behind it."""

    client: TestClient[Any, Any]
    house: House
    ticking: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def call(self, **open_: Any) -> AsyncIterator[Tool]:
        """A tool that has said ``open``, and is ready."""
        async with self.socket() as tool:
            await tool.open(**open_)
            await tool.until("ready")
            yield tool

    @contextlib.asynccontextmanager
    async def socket(self) -> AsyncIterator[Tool]:
        async with self.client.ws_connect(PATH) as socket:
            yield Tool(socket)

    @property
    def session(self) -> Session:
        (session,) = self.house.registry
        return session

    async def tick(self, count: int = 1) -> None:
        """Ticks by hand, when `ticking` is not set."""
        for _ in range(count):
            await self.house.conductor.tick()
            await asyncio.sleep(0)

    def stepped(self) -> NDArray[np.int16]:
        """All that the engine ever heard in live frames."""
        return np.concatenate([pcm[row] for _, live, pcm in self.engine.exchanges for row in np.flatnonzero(live)])

    @property
    def engine(self) -> FakeEngine:
        return self.house.engine


@contextlib.asynccontextmanager
async def line(slots: int = 2, limits: SocketLimits | None = None, api_key: str | None = None) -> AsyncIterator[Line]:
    """At the end nothing is left of any call."""
    house = House(clock=time.monotonic, engine=EchoEngine(slots=slots))  # type: ignore[arg-type]
    gate = Gate(HttpSettings(api_key=SecretStr(api_key) if api_key else None))
    info = Info(house.engine, house.admission, lambda: Connectivity(True, "", ()), gate.needs_key, IceServers())
    sessions = Sessions(house.admission, house.registry, None, IceServers())  # type: ignore[arg-type]
    duplex = Duplex(house.admission, house.clock, limits or SocketLimits())
    app = create_app(gate, sessions, info, Page(), duplex)
    client: TestClient[Any, Any] = TestClient(TestSite(app))
    await client.start_server()
    line = Line(client, house)
    line.ticking.set()
    ticker = asyncio.create_task(_tick(line))
    try:
        yield line
        line.ticking.set()
        await until(lambda: not len(house.registry))
        assert house.engine.leases == []
        await until(lambda: not _left_over())
    finally:
        ticker.cancel()
        await client.close()


async def _tick(line: Line) -> None:
    while True:
        await line.ticking.wait()
        await line.house.conductor.tick()
        await asyncio.sleep(TICK_S)


def _left_over() -> list[str]:
    names = [task.get_name() for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith(("websocket-leg", "socket-close", "session-close", "leg-close"))]


async def until(holds: Any) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not holds():
            await asyncio.sleep(TICK_S)


class Tool:
    """What somebody writes who has the page of documentation."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket
        self.messages: list[dict[str, Any]] = []
        """All text messages so far."""
        self.format = "f32"
        self.close_code: int | None = None
        self.close_reason = ""
        self._audio: list[bytes] = []

    async def open(self, **fields: Any) -> None:
        self.format = fields.get("format", "f32")[:3]
        await self.say(type="open", **fields)

    async def say(self, **message: Any) -> None:
        await self.socket.send_str(json.dumps(message))

    async def sound(self, pcm: Samples) -> None:
        await self.socket.send_bytes(self.encoded(pcm))

    async def append(self, pcm: Samples, **more: Any) -> None:
        """The same as text."""
        await self.say(type="input.append", data=base64.b64encode(self.encoded(pcm)).decode(), **more)

    def encoded(self, pcm: Samples) -> bytes:
        return (to_int16(pcm).astype("<i2") if self.format == "s16" else pcm.astype("<f4")).tobytes()

    @property
    def types(self) -> list[str]:
        return [message["type"] for message in self.messages]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == kind]

    @property
    def heard(self) -> Samples:
        """All audio so far, as float32."""
        raw = np.frombuffer(b"".join(self._audio), DTYPES[self.format])
        return to_float(raw.astype(np.int16)) if self.format == "s16" else raw.astype(np.float32)

    async def until(self, kind: str) -> dict[str, Any]:
        """The next message of a type."""
        seen = len(self.messages)
        while True:
            for message in self.messages[seen:]:
                if message["type"] == kind:
                    return message
            seen = len(self.messages)
            assert await self._receive(), f"closed with {self.close_code} {self.close_reason!r} before {kind}"

    async def until_heard(self, samples: int) -> None:
        while self.heard.size < samples:
            assert await self._receive(), f"closed with {self.close_code} {self.close_reason!r}"

    async def heard_out(self) -> None:
        """Returns when the server has read all that was sent so far."""
        await self.say(type="open")
        await self.until("error")

    async def listen(self, for_s: float) -> int:
        """How many samples come within that time."""
        heard = self.heard.size
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(for_s):
                while await self._receive():
                    pass
        return self.heard.size - heard

    async def finish(self) -> None:
        """``close``, and everything up to the end."""
        await self.say(type="close")
        await self.until_closed()

    async def until_closed(self) -> int:
        """Reads what comes; the code of the close frame."""
        while await self._receive():
            pass
        assert self.close_code is not None
        return self.close_code

    def drop(self) -> None:
        """The connection breaks, without a word."""
        transport = self.socket.get_extra_info("transport") or self.socket._writer.transport
        transport.abort()

    async def _receive(self) -> bool:
        async with asyncio.timeout(WITHIN_S):
            message = await self.socket.receive()
        match message.type:
            case WSMsgType.BINARY:
                self._audio.append(message.data)
            case WSMsgType.TEXT:
                self.messages.append(json.loads(message.data))
            case _:
                self.close_code = self.socket.close_code
                self.close_reason = message.extra or ""
                return False
        return True
