"""An engine in this process: an `EngineLoop` on a thread of its own, seen as an `EngineClient`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.client import Capacity, Lease, TickResult
from rtc_server.engine.loop import EngineLoop
from rtc_server.engine.silence import SilenceWatch
from rtc_server.engine.slots import SlotsClosing
from rtc_server.engine.stepper import FrameSpec, FrameStepper, SessionPrompt
from rtc_server.engine.tick import Exchange, Turn
from rtc_server.errors import EngineUnavailable
from rtc_server.log import get_logger

log = get_logger(__name__)

LOST_AFTER_S = 5.0
"""An engine thread that completed no turn for so long is lost. A late tick alone is shed, not a loss."""
CLOSING_PATIENCE_S = 0.25
"""So long `reserve` waits for a slot that is about to be free."""
JOIN_PATIENCE_S = 5.0


class LocalEngine:
    """Drives a stepper in this process. All methods are for one event loop's thread, the one that awaited `start`.

    Args:
        factory: builds the stepper; called on the engine thread, so it may take its time.
        engine_id: goes into the leases.
        deadline_s: how long an exchange waits before it asks whether the engine still lives. While it does, the
            exchange waits on.
        lost_after_s: see `LOST_AFTER_S`.
    """

    spec: FrameSpec
    """Set by `start`."""

    def __init__(
        self,
        factory: Callable[[], FrameStepper],
        *,
        engine_id: str = "local",
        deadline_s: float = 0.5,
        lost_after_s: float = LOST_AFTER_S,
    ) -> None:
        self._factory = factory
        self._engine_id = engine_id
        self._deadline_s = deadline_s
        self._hearing = SilenceWatch(lost_after_s)
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._started: asyncio.Future[EngineLoop] | None = None
        self._ended = asyncio.Event()
        self._freed = asyncio.Event()
        self._sampling_voice = asyncio.Lock()
        self._futures: dict[Exchange, asyncio.Future[None]] = {}
        self._watchdog: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None
        self._loop: EngineLoop | None = None
        self._stopping = False

    async def start(self) -> None:
        """Build the stepper and begin to tick.

        Raises whatever the factory raised; RuntimeError on a second call.
        """
        if self._thread is not None:
            raise RuntimeError("a LocalEngine starts once")
        self._event_loop = asyncio.get_running_loop()
        self._started = self._event_loop.create_future()
        self._thread = threading.Thread(target=self._main, name=f"engine-{self._engine_id}", daemon=True)
        self._thread.start()
        self._loop = await asyncio.shield(self._started)
        self.spec = self._loop.spec

    def drain(self) -> None:
        """Refuse new leases from now on; those that exist go on."""
        if self._loop is not None:
            self._loop.drain()

    async def stop(self) -> None:
        """Let the call into the stepper that may be running end, close all slots, end the thread. May be called twice.

        Exchanges that wait raise EngineUnavailable. A stepper that is stuck is left behind on its daemon thread.
        """
        self._stopping = True
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        if self._loop is not None:
            self._loop.stop()
        if self._thread is None:
            return
        try:
            async with asyncio.timeout(JOIN_PATIENCE_S):
                await self._ended.wait()
        except TimeoutError:
            log.error("engine thread is stuck in its stepper, left behind", engine=self._engine_id)
            self._set_started(None, EngineUnavailable("the engine was stopped while it was starting"))
            self._fail_all("the engine is stuck")
        else:
            self._thread.join()

    async def reserve(self, prompt: SessionPrompt) -> Lease:
        """Take a slot and begin its prefill. Waits up to 0.25 s for a slot that a former owner has just given back.

        Raises: EngineFull, EngineDraining, EngineUnavailable, UnknownVoice.
        """
        give_up_s = time.monotonic() + CLOSING_PATIENCE_S
        while True:
            loop = self._running_loop()
            try:
                return loop.reserve(prompt)
            except SlotsClosing:
                if (left_s := give_up_s - time.monotonic()) <= 0:
                    raise
            self._freed.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._freed.wait()
            except TimeoutError:
                continue

    async def exchange(
        self, leases: Sequence[Lease], live: Sequence[int], seq: int, pcm: NDArray[np.int16]
    ) -> TickResult:
        """See `EngineClient.exchange`. `pcm` is copied before the first await. May be cancelled at any time.

        Raises: EngineUnavailable if the engine's thread is dead, has stopped, or was silent for 5 s.
        """
        loop = self._running_loop()
        exchange = loop.submit(leases, live, seq, pcm)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures[exchange] = future
        self._watch_over_exchanges()
        try:
            await future
        finally:
            if self._futures.pop(exchange, None) is not None:
                loop.withdraw(exchange)
        result = exchange.result_at(time.monotonic())
        assert result is not None
        return result

    def _watch_over_exchanges(self) -> None:
        """While anybody waits, ask every `deadline_s` whether the engine still lives."""
        if self._watchdog is None and self._futures:
            self._watchdog = asyncio.get_running_loop().call_later(self._deadline_s, self._bark)

    def _bark(self) -> None:
        self._watchdog = None
        try:
            self._running_loop()
        except EngineUnavailable as error:
            self._fail_all(error.message)
        self._watch_over_exchanges()

    async def release(self, lease: Lease) -> None:
        """Give the slot back; it is free once the call into the stepper that may be running is over."""
        if self._loop is not None:
            self._loop.release(lease)

    async def voice_sample(self, voice: str) -> NDArray[np.int16] | None:
        """See `EngineClient.voice_sample`. One at a time, on a thread that neither steps nor answers."""
        async with self._sampling_voice:
            return await asyncio.to_thread(self._running_loop().voice_sample, voice)

    def capacity(self) -> Capacity:
        if self._loop is None:
            return Capacity(total=0, in_use=0, draining=self._stopping, ready=False)
        return self._loop.capacity()

    def _running_loop(self) -> EngineLoop:
        """Raises: EngineUnavailable if the engine is lost."""
        if self._loop is None:
            raise EngineUnavailable("the engine has not started yet", hint="it is still loading; try again")
        if self._stopping or self._thread is None or not self._thread.is_alive():
            raise EngineUnavailable("the engine has stopped")
        now, heard_s = time.monotonic(), self._loop.heartbeat_s
        if self._hearing.is_lost(heard_s, now):
            raise EngineUnavailable(f"the engine has been silent for {now - heard_s:.1f} s")
        return self._loop

    # ---- engine thread -----------------------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            loop = EngineLoop(self._factory(), engine_id=self._engine_id)
        except BaseException as error:  # belongs to whoever awaits `start`
            self._call(self._set_started, None, error)
            self._call(self._ended.set)
            return
        self._call(self._set_started, loop, None)
        try:
            if self._stopping:
                loop.stop()
            loop.run(self._deliver)
        except Exception:
            log.exception("engine thread died", engine=self._engine_id)
        finally:
            self._call(self._end)

    def _deliver(self, turn: Turn) -> None:
        self._call(self._resolve, turn)

    def _call(self, function: Callable[..., None], *args: object) -> None:
        assert self._event_loop is not None
        try:
            self._event_loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the event loop is closed: nobody is left to be told
            log.debug("event loop is gone", engine=self._engine_id)

    # ---- event loop, called from the engine thread -------------------------------------------------------------------

    def _set_started(self, loop: EngineLoop | None, error: BaseException | None) -> None:
        assert self._started is not None
        if loop is not None and self._stopping:
            loop.stop()
            error = EngineUnavailable("the engine was stopped while it was starting")
        if self._started.done():
            return
        if error is not None:
            self._started.set_exception(error)
            self._started.exception()  # seen, even if the caller of `start` was cancelled
        elif loop is not None:
            self._loop = loop
            self._started.set_result(loop)

    def _resolve(self, turn: Turn) -> None:
        if turn.freed:
            self._freed.set()
        for exchange in turn.done:
            future = self._futures.pop(exchange, None)
            if future is None or future.done():
                continue
            if exchange.result is not None:
                future.set_result(None)
            else:
                future.set_exception(exchange.error or EngineUnavailable("the engine gave no answer"))

    def _end(self) -> None:
        self._ended.set()
        self._freed.set()
        self._fail_all("the engine has stopped")

    def _fail_all(self, reason: str) -> None:
        futures, self._futures = self._futures, {}
        for future in futures.values():
            if not future.done():
                future.set_exception(EngineUnavailable(reason))
