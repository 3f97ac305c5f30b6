"""An engine in a process of its own, seen as an `EngineClient`.

Neither its kernel launches, nor a stall, nor its hold of the interpreter lock can delay a packet of ours. When the
process dies, or is not ready for too long, its slots are gone: requests that wait raise EngineUnavailable at once, and
another process takes its place. An old lease is unknown there, since every start has an incarnation of its own.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rtc_server import metrics
from rtc_server.engine.client import Capacity, Lease, SlotOutput, SlotStatus, TickResult
from rtc_server.engine.local import LOST_AFTER_S
from rtc_server.engine.process.incarnation import Incarnation
from rtc_server.engine.process.messages import (
    Drain,
    Exchange,
    Launch,
    Leased,
    Release,
    Reserve,
    SampleVoice,
    Ticked,
    VoiceSampled,
)
from rtc_server.engine.process.wire import WireError, pack_pcm
from rtc_server.engine.registry import EngineOptions, create, wants_own_process
from rtc_server.engine.stepper import FRAME_SAMPLES, FrameSpec, SessionPrompt
from rtc_server.errors import BadRequest, ConfigError, EngineUnavailable, RtcServerError
from rtc_server.log import get_logger

log = get_logger(__name__)

RESTART_AFTER_S = 8.0
"""Longer than a lost engine's calls last, shorter than `EngineLoop` waits until it tries a broken stepper again."""
BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Before each start after a loss; the last one for all that follow."""
HEALTHY_AFTER_S = 60.0
"""Who lived so long begins with the shortest backoff again."""


def has_own_process(mode: Literal["auto", "on", "off"], engine: str) -> bool:
    """What ``--engine-process`` comes to. Raises: ConfigError for ``on`` where it is impossible."""
    possible = sys.platform != "win32"
    if mode == "on" and not possible:
        raise ConfigError("--engine-process on is impossible on Windows", hint="say off; the engine is then a thread")
    return mode == "on" or (mode == "auto" and possible and wants_own_process(engine))


class RemoteEngine:
    """Drives a stepper in a process of its own. All methods are for the event loop that awaited `start`.

    Args:
        engine: a name that `registry.create` takes.
        options: handed to the engine's constructor in its process.
        engine_id: goes into the leases.
        log_level: of the process.
        log_format: ``json``, ``text``, or ``auto``: JSON unless standard error is a terminal.
        lost_after_s: an engine that was silent for so long makes requests raise EngineUnavailable.
        restart_after_s: an engine that was not ready for so long is replaced.
        backoff_s: see `BACKOFF_S`.

    Raises: UnknownEngine, ConfigError, as `registry.create` does.
    """

    spec: FrameSpec
    """Set by `start`."""

    def __init__(
        self,
        engine: str,
        options: EngineOptions,
        *,
        engine_id: str = "engine",
        log_level: str = "info",
        log_format: Literal["auto", "json", "text"] = "auto",
        lost_after_s: float = LOST_AFTER_S,
        restart_after_s: float = RESTART_AFTER_S,
        backoff_s: Sequence[float] = BACKOFF_S,
    ) -> None:
        create(engine, options)  # a wrong name shall not have to wait for a process
        self._launch = Launch(engine, options, engine_id, lost_after_s)
        self._arguments = ("--log-level", log_level, "--log-format", log_format)
        self._restart_after_s = restart_after_s
        self._backoff_s = backoff_s
        self._incarnation: Incarnation | None = None
        """The one that serves, or the last one that did."""
        self._starting: Incarnation | None = None
        self._supervising: asyncio.Task[None] | None = None
        self._draining = False
        self._stopping = False

    async def start(self) -> None:
        """Launch the process and wait until it has built the engine, however long that takes.

        Raises: what the engine's constructor raised if that is one of `rtc_server.errors`, else EngineError;
        EngineUnavailable if the process ended meanwhile; RuntimeError on a second call.
        """
        if self._starting is not None or self._incarnation is not None:
            raise RuntimeError("a RemoteEngine starts once")
        incarnation = await self._start_incarnation()
        self._supervising = asyncio.create_task(self._supervise(incarnation), name="engine-supervisor")

    def drain(self) -> None:
        """Refuse new leases from now on; those that exist go on. A process that dies from now on is not replaced."""
        self._draining = True
        if self._incarnation is not None:
            self._incarnation.tell(Drain())

    async def stop(self) -> None:
        """Let the call into the stepper that may be running end, close all slots, end the process. May be called twice.

        Exchanges that wait raise EngineUnavailable. A process that does not end by itself is ended.
        """
        self._draining = self._stopping = True
        if self._supervising is not None:
            self._supervising.cancel()
            await asyncio.gather(self._supervising, return_exceptions=True)
        for incarnation in (self._starting, self._incarnation):
            if incarnation is not None:
                await incarnation.end()

    async def reserve(self, prompt: SessionPrompt) -> Lease:
        """Take a slot and begin its prefill. Waits up to 0.25 s for a slot that a former owner has just given back.

        Raises: see `EngineClient.reserve`.
        """
        incarnation = self._living()
        try:
            answer, _ = await incarnation.ask(Reserve(incarnation.new_id(), prompt))
        except WireError as error:
            raise BadRequest("the prompt is no text that can be sent to the engine", hint=error.message) from None
        if not isinstance(answer, Leased):
            raise WireError(f"{answer.kind} is no answer to a request for a slot")
        return answer.lease

    async def exchange(
        self, leases: Sequence[Lease], live: Sequence[int], seq: int, pcm: NDArray[np.int16]
    ) -> TickResult:
        """See `EngineClient.exchange`. `pcm` is copied before the first await. May be cancelled at any time.

        Raises: EngineUnavailable if the engine's process or thread is dead, has stopped, or was silent for 5 s;
        ValueError if the lengths do not fit.
        """
        if len(live) != len(leases) or pcm.shape != (len(leases), FRAME_SAMPLES) or pcm.dtype != np.int16:
            raise ValueError(
                f"{len(leases)} leases, {len(live)} live flags and pcm {pcm.dtype}{list(pcm.shape)} do not fit together"
            )
        incarnation = self._living()
        request = Exchange(incarnation.new_id(), tuple(leases), tuple(int(flag) for flag in live), seq)
        answer, rows = await incarnation.ask(request, pack_pcm(pcm))
        if not isinstance(answer, Ticked) or len(answer.outputs) != len(leases):
            raise WireError(f"{answer.kind} is no answer to an exchange of {len(leases)} leases")
        return _tick_result(answer, rows, time.monotonic())

    async def release(self, lease: Lease) -> None:
        """Give the slot back; it is free once the call into the stepper that may be running is over."""
        if self._incarnation is not None:
            self._incarnation.tell(Release(lease))

    async def voice_sample(self, voice: str) -> NDArray[np.int16] | None:
        """See `EngineClient.voice_sample`."""
        incarnation = self._living()
        self.spec.check_voice(voice)
        answer, frames = await incarnation.ask(SampleVoice(incarnation.new_id(), voice))
        if not isinstance(answer, VoiceSampled):
            raise WireError(f"{answer.kind} is no answer to a request for a voice")
        return frames if len(frames) else None

    def capacity(self) -> Capacity:
        if self._incarnation is None:
            return Capacity(total=0, in_use=0, draining=self._draining, ready=False)
        capacity = self._incarnation.capacity
        draining = capacity.draining or self._draining
        return dataclasses.replace(capacity, draining=draining, ready=capacity.ready and not self._stopping)

    def _living(self) -> Incarnation:
        """Raises: EngineUnavailable if the engine is lost."""
        if self._stopping:
            raise EngineUnavailable("the engine has stopped")
        if self._incarnation is None:
            raise EngineUnavailable("the engine has not started yet", hint="it is still loading; try again")
        self._incarnation.check()
        return self._incarnation

    # ---- one life after the other ------------------------------------------------------------------------------------

    async def _start_incarnation(self) -> Incarnation:
        """One that serves from now on; or none, and nothing is left of it."""
        incarnation = Incarnation(self._launch, self._arguments, restart_after_s=self._restart_after_s)
        self._starting = incarnation
        try:
            await incarnation.start()
            if self._stopping:
                raise EngineUnavailable("the engine was stopped while it was starting")
        except BaseException:
            await incarnation.end()
            raise
        finally:
            self._starting = None
        self._incarnation, self.spec = incarnation, incarnation.spec
        if self._draining:
            incarnation.tell(Drain())
        return incarnation

    async def _supervise(self, incarnation: Incarnation) -> None:
        failures = 0
        while True:
            began_s = time.monotonic()
            how = await incarnation.ended()
            lived_s = time.monotonic() - began_s
            log.error("engine process is gone, and its calls", pid=incarnation.pid, how=how, lived_s=round(lived_s, 1))
            if lived_s >= HEALTHY_AFTER_S:
                failures = 0
            while (successor := await self._restart(failures)) is None:
                failures += 1
            failures += 1
            incarnation = successor

    async def _restart(self, failures: int) -> Incarnation | None:
        """After the pause that so many failures in a row call for. None if it failed, too."""
        await asyncio.sleep(self._backoff_s[min(failures, len(self._backoff_s) - 1)])
        if self._draining:
            log.info("engine process is not started again, since the server is going down")
            await asyncio.Event().wait()
        metrics.ENGINE_RESTARTS.inc()
        began_s = time.monotonic()
        try:
            incarnation = await self._start_incarnation()
        except (RtcServerError, OSError) as error:
            log.error("engine does not start again", error=str(error), failures=failures + 1)
            return None
        except Exception:  # whatever it is, it must not end the supervisor: nobody else would start the engine again
            log.exception("engine does not start again", failures=failures + 1)
            return None
        log.info("engine serves again", pid=incarnation.pid, after_s=round(time.monotonic() - began_s, 1))
        return incarnation


def _tick_result(ticked: Ticked, rows: NDArray[np.int16], now: float) -> TickResult:
    """`rows` [live, 1920] belong to the live outputs, in their order."""
    sound = iter(rows)
    outputs = tuple(
        SlotOutput(
            output.status,
            next(sound) if output.status is SlotStatus.LIVE else None,
            output.text,
            output.heard,
            output.prefill,
        )
        for output in ticked.outputs
    )
    return TickResult(ticked.tick, max(0.0, ticked.next_tick_at_s - now), ticked.step_s, ticked.shed, outputs)
