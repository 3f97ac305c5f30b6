"""The hot loop: once a tick, every session of an engine gives a frame and gets one.

The engine owns the clock; each exchange says when its next edge is, and the conductor gathers one margin before it. The
engine ticks as soon as it has every frame, so the margin costs no delay: it is what the event loop may be late without
an edge going by.

Many sessions make long work of it, and packets are due meanwhile. So it is done in pieces, with breaks in which the
event loop sends and receives them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.client import EngineClient, Live, SlotOutput, TickResult
from rtc_server.engine.stepper import FRAME_S, FRAME_SAMPLES
from rtc_server.errors import EngineError
from rtc_server.log import get_logger
from rtc_server.media.pcm import to_int16
from rtc_server.session.session import Session, State

log = get_logger(__name__)

Batch = list[tuple[Session, Live]]

PIECE_S = 0.002
"""How long the conductor works before it takes a break."""


class PacketClock(Protocol):
    """The pacer, as far as the conductor needs it."""

    def align(self, tick_s: float, offset_s: float) -> None:
        """Let packet slots fall `offset_s` behind ticks such as the one at `tick_s`."""


class DeliveryDelay:
    """From gathering a tick's frames to having its output: what is usual, so that packets may leave right after.

    The 90th percentile of the last 64 ticks (5 s). The slot of a tick that takes longer waits. The median at first:
    ticks in which a call is set up take longer than others.
    """

    def __init__(self, guard_s: float = 0.001) -> None:
        self._recent_s = np.full(64, np.nan)
        self._count = 0
        self._guard_s = guard_s

    def observe(self, delay_s: float) -> None:
        self._recent_s[self._count % self._recent_s.size] = delay_s
        self._count += 1

    @property
    def usual_s(self) -> float:
        known = self._recent_s[: min(self._count, self._recent_s.size)]
        if not known.size:
            return self._guard_s
        return float(np.quantile(known, 0.9 if known.size >= 25 else 0.5)) + self._guard_s


class Breaks:
    """Breaks in long work on the event loop, `PIECE_S` apart: in each, everything else that is due runs once.

    Args:
        until_s: from then on the work is late, and goes on without breaks.
    """

    def __init__(self, clock: Callable[[], float], until_s: float) -> None:
        self._clock = clock
        self._until_s = until_s
        self._next_s = clock() + PIECE_S

    async def take_when_due(self) -> None:
        now = self._clock()
        if self._next_s <= now < self._until_s:
            await asyncio.sleep(0)
            self._next_s = self._clock() + PIECE_S


class Conductor:
    """One per engine client. `run` is its only task; sessions come and go whenever it awaits. One that comes is in the
    next tick, one that has ended gives and takes nothing more."""

    def __init__(
        self,
        engine: EngineClient,
        pacer: PacketClock,
        clock: Callable[[], float],
        margin_s: float = FRAME_S / 2,
    ) -> None:
        self.sessions: dict[str, Session] = {}
        self._engine = engine
        self._pacer = pacer
        self._clock = clock
        self._margin_s = margin_s
        self._sequence = 0
        self._last_tick: int | None = None
        self._past_frames = 0
        self._delivery = DeliveryDelay()
        self._occupied = asyncio.Event()

    def add(self, session: Session) -> None:
        self.sessions[session.id] = session
        self._occupied.set()

    def remove(self, session: Session) -> None:
        self.sessions.pop(session.id, None)
        if not self.sessions:
            self._occupied.clear()

    async def run(self) -> None:
        """Conduct until cancelled."""
        gather_at_s = self._clock()
        while True:
            if not self.sessions:
                await self._occupied.wait()
                self._last_tick, self._past_frames = None, 0
                gather_at_s = self._clock()
            await asyncio.sleep(max(0.0, gather_at_s - self._clock()))
            try:
                next_edge_s = await self.tick()
            except EngineError as error:
                log.error("engine lost", code=error.code, sessions=len(self.sessions))
                self._end_all("engine_lost")
                next_edge_s = self._clock() + FRAME_S
            except Exception:
                # A defect of ours in one tick must not silence every call for good.
                log.exception("tick failed")
                next_edge_s = self._clock() + FRAME_S
            gather_at_s = next_edge_s - self._margin_s

    async def tick(self) -> float:
        """Gather, exchange, scatter, account. Returns when the engine's next edge is."""
        gathered_s = self._clock()
        batch = self._batch()
        pcm = await self._gather(batch, gathered_s)
        result = await self._exchange(batch, pcm)
        next_edge_s = self._clock() + result.next_tick_in_s
        await self._scatter(batch, pcm, result)
        self._account(batch, gathered_s, next_edge_s, result)
        return next_edge_s

    # ---- the four steps ----------------------------------------------------------------------------------------------

    def _batch(self) -> Batch:
        """Every session is named in every exchange, so that its lease is renewed; only some are to be stepped."""
        return [(session, session.live) for session in self.sessions.values() if session.state is not State.CLOSED]

    async def _gather(self, batch: Batch, now: float) -> NDArray[np.float32]:
        """[n, 1920] float32. Half of the margin may go by in breaks; the rest is for getting there before the edge."""
        pcm = np.zeros((len(batch), FRAME_SAMPLES), np.float32)
        breaks = Breaks(self._clock, now + self._margin_s / 2)
        for row, (session, live) in enumerate(batch):
            await breaks.take_when_due()
            if session.state is State.CLOSED:
                continue
            try:
                session.shed(self._past_frames)
                if live:
                    pcm[row] = session.gather(now)
                elif session.state is State.DEGRADED:
                    session.gather(now)  # the jitter buffer's clock goes on while the model is frozen
            except Exception:
                # One session's defect must not reach its neighbours; its row stays silent for this tick.
                log.exception("session failed", session_id=session.id)
                session.close("internal_error")
        return pcm

    async def _exchange(self, batch: Batch, pcm: NDArray[np.float32]) -> TickResult:
        self._sequence += 1
        return await self._engine.exchange(
            [session.lease for session, _ in batch],
            [live for _, live in batch],
            self._sequence,
            to_int16(pcm),
        )

    async def _scatter(self, batch: Batch, pcm: NDArray[np.float32], result: TickResult) -> None:
        breaks = Breaks(self._clock, self._clock() + self._margin_s / 2)
        for (session, _), user_pcm, output in zip(batch, pcm, result.outputs, strict=True):
            await breaks.take_when_due()
            self._deliver(session, self._clock(), user_pcm, output, result)

    def _account(self, batch: Batch, gathered_s: float, next_edge_s: float, result: TickResult) -> None:
        # Edges that went by without our frames: the engine overran, or we came too late. Their input is past its time.
        self._past_frames = 0 if self._last_tick is None else result.tick - self._last_tick - 1
        self._last_tick = result.tick
        stepped = any(live for _, live in batch)  # else the answer came at the edge, and tells nothing of the step
        if stepped and self._past_frames == 0:
            self._delivery.observe(self._clock() - gathered_s)
        self._pacer.align(next_edge_s - self._margin_s, self._delivery.usual_s)

    def _deliver(
        self, session: Session, now: float, user_pcm: NDArray[np.float32], output: SlotOutput, result: TickResult
    ) -> None:
        try:
            session.deliver(now, user_pcm, output, result)
        except Exception:
            # One session's defect must not reach its neighbours.
            log.exception("session failed", session_id=session.id)
            session.close("internal_error")

    def _end_all(self, reason: str) -> None:
        for session in list(self.sessions.values()):
            session.close(reason)
