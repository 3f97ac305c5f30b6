"""A socket that does what it is told, words that can be read, and a server around them in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rtc_server import events
from rtc_server.engine.client import Lease, TickResult
from rtc_server.engine.stepper import FRAME_SAMPLES, SessionPrompt
from rtc_server.events import Numbered
from rtc_server.media.frames import FRAME_S, FloatSamples
from rtc_server.session.leg import FloatFrame
from rtc_server.session.session import Session
from rtc_server.transports.websocket.intake import Pace
from rtc_server.transports.websocket.leg import SocketLeg
from tests.session.conftest import House
from tests.session.fakes import FakeClock, FakeEngine
from tests.transports.websocket.virtualloop import now


class FakeWire:
    """Takes everything at once, until it is told to stop."""

    def __init__(self, answers_pings: bool = True, way_s: float = 0.02) -> None:
        self.messages: list[str | bytes] = []
        self.sent_s: list[float] = []
        """When each message was taken."""
        self.pings: list[float] = []
        self.closed: list[tuple[int, str]] = []
        self.closed_s: list[float] = []
        self.answers_pings = answers_pings
        self.way_s = way_s
        self.takes_s = 0.0
        """How long each message takes to be taken."""
        self.fails_with: Exception | None = None
        self.close_hangs = False
        self.leg: SocketLeg | None = None
        """Who hears our pongs."""
        self._reads = asyncio.Event()
        self._reads.set()

    def stop_reading(self) -> None:
        """The socket is full: sends hang, and nothing is answered."""
        self._reads.clear()

    def read_on(self) -> None:
        self._reads.set()

    async def send(self, message: str | bytes) -> None:
        await self._take()
        self.messages.append(message)
        self.sent_s.append(now())

    async def ping(self, payload: bytes) -> None:
        await self._take()
        self.pings.append(now())
        if self.answers_pings and self.leg is not None:
            asyncio.get_running_loop().call_later(self.way_s, self._answer, self.leg, payload)

    @staticmethod
    def _answer(leg: SocketLeg, payload: bytes) -> None:
        leg.alive()
        leg.pong(payload)

    async def close(self, code: int, reason: str) -> None:
        self.closed.append((code, reason))
        self.closed_s.append(now())
        if self.close_hangs:
            await asyncio.Event().wait()

    async def _take(self) -> None:
        await self._reads.wait()
        if self.takes_s:
            await asyncio.sleep(self.takes_s)
        if self.fails_with is not None:
            raise self.fails_with

    # ---- what left ----

    @property
    def pcm(self) -> NDArray[np.float32]:
        """All audio in a row."""
        return np.concatenate([np.zeros(0, np.float32), *(np.frombuffer(item, np.float32) for item in self.frames)])

    @property
    def frames(self) -> list[bytes]:
        return [message for message in self.messages if isinstance(message, bytes)]

    @property
    def words(self) -> list[dict[str, Any]]:
        return [json.loads(message) for message in self.messages if isinstance(message, str)]

    @property
    def types(self) -> list[str]:
        return [word["type"] for word in self.words]


class PlainDialect:
    """float32 and JSON."""

    def __init__(self, has_events: bool = False) -> None:
        self.has_events = has_events
        self.is_broken = False

    def audio(self, pcm: FloatFrame) -> bytes:
        if self.is_broken:
            raise RuntimeError("broken encoder")
        return pcm.tobytes()

    def event(self, numbered: Numbered) -> Sequence[str]:
        return [json.dumps(numbered.event.to_json())]


class FakeHandler:
    """What the session would hear."""

    def __init__(self) -> None:
        self.connected = 0
        self.messages: list[str | bytes] = []
        self.closed: list[str] = []

    def on_connected(self) -> None:
        self.connected += 1

    def on_message(self, message: str | bytes) -> None:
        self.messages.append(message)

    def on_digit(self, digit: str) -> None:
        raise AssertionError("a socket has no keys")

    def on_leg_closed(self, reason: str) -> None:
        self.closed.append(reason)


class LoopClock(FakeClock):
    """The event loop's time."""

    def __call__(self) -> float:
        return now()


class EchoEngine(FakeEngine):
    """Says what it hears, and remembers it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.heard_by: dict[Lease, list[NDArray[np.int16]]] = {}
        self._edge_s = 0.0

    async def exchange(
        self, leases: Sequence[Lease], live: Sequence[int], seq: int, pcm: NDArray[np.int16]
    ) -> TickResult:
        result = await super().exchange(leases, live, seq, pcm)
        outputs = []
        for lease, row, output in zip(leases, pcm, result.outputs, strict=True):
            if output.pcm is not None:
                self.heard_by.setdefault(lease, []).append(row.copy())
                output = dataclasses.replace(output, pcm=row.copy())
            outputs.append(output)
        self._edge_s = max(self._edge_s, now()) + FRAME_S  # it ticks as soon as it has every frame
        return dataclasses.replace(result, next_tick_in_s=self._edge_s - now(), outputs=tuple(outputs))

    def heard_from(self, caller: Caller) -> FloatSamples:
        """Everything that this caller's slot was stepped with."""
        rows = self.heard_by.get(caller.session.lease, [])
        return np.concatenate([np.zeros(0, np.float32), *(row.astype(np.float32) / 32768 for row in rows)])


@dataclasses.dataclass
class Caller:
    session: Session
    leg: SocketLeg
    wire: FakeWire


class Server:
    """Sessions, conductor and echo in virtual time. Everything has ended when it is left."""

    def __init__(self, slots: int = 2) -> None:
        self.engine = EchoEngine(slots=slots)
        self.house = House(clock=LoopClock(), engine=self.engine)
        self._conducting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._conducting = asyncio.create_task(self.house.conductor.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.house.registry.close_all("server_stopping")
        assert self._conducting is not None
        self._conducting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._conducting

    async def call(
        self, pace: Pace = Pace.INPUT, dialect: PlainDialect | None = None, wire: FakeWire | None = None
    ) -> Caller:
        """What an endpoint does for one socket."""
        wire = wire or FakeWire()
        session = await self.house.admission.admit(SessionPrompt())
        attachment = session.expect_leg()
        leg = wire.leg = SocketLeg(wire, dialect or PlainDialect(), pace, attachment, now)
        attachment.attach(leg)
        leg.start()
        return Caller(session, leg, wire)


def voice(frames: float, seed: int = 1) -> FloatSamples:
    """Noise that int16 holds exactly, so that an echo of it can be compared."""
    samples = np.random.default_rng(seed).integers(-8000, 8000, round(frames * FRAME_SAMPLES))
    return (samples / 32768).astype(np.float32)


def frame(value: float) -> FloatFrame:
    return np.full(FRAME_SAMPLES, value, np.float32)


class Rig:
    """A leg without a session, and what is at both of its ends."""

    def __init__(self, pace: Pace = Pace.REALTIME, answers_pings: bool = True) -> None:
        self.wire = FakeWire(answers_pings)
        self.dialect = PlainDialect()
        self.handler = FakeHandler()
        self.leg = self.wire.leg = SocketLeg(self.wire, self.dialect, pace, self.handler, now)
        self.leg.start()

    async def talk(self, seconds: float, event: events.ServerEvent | None = None) -> None:
        """The agent talks: a frame each 80 ms, and `event` with each."""
        for _ in range(round(seconds / 0.08)):
            if event is not None:
                self.leg.send_event(numbered(event))
            self.leg.write(now(), frame(0.1))
            await asyncio.sleep(0.08)


def numbered(event: events.ServerEvent, seq: int = 1) -> Numbered:
    return Numbered(seq, event)
