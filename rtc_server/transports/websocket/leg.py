"""One caller over a WebSocket: audio and words through one socket, bounded both ways, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import secrets
from collections.abc import Callable

from rtc_server import metrics
from rtc_server.engine.client import Live
from rtc_server.events import Numbered, SessionEnded
from rtc_server.log import get_logger
from rtc_server.media.frames import FRAME_SAMPLES, SAMPLES_PER_MS, FloatSamples
from rtc_server.session.leg import FloatFrame, Flushed, LegHandler, LegStats
from rtc_server.session.worth import Worth, worth
from rtc_server.transports.ratelimit import RateLimit
from rtc_server.transports.websocket.closing import ENDED_ELSEWHERE, NOT_READING, goodbye
from rtc_server.transports.websocket.intake import Intake, Pace
from rtc_server.transports.websocket.outbox import STALL_S, Outbox
from rtc_server.transports.websocket.pings import Pings
from rtc_server.transports.websocket.wire import ConnectionLost, Dialect, Wire

PING_EVERY_S = 1.0
GOODBYE_S = 2.0
"""How long what waits may take to leave when the leg is to be closed."""
TAIL_S = 30.0
"""How long it may take where the caller's audio has ended and its answer is still owed, to who goes on reading. No slot
is held for it."""
CLOSE_S = 3.0
"""How long the socket may take to close then."""

MESSAGES_PER_S = 50.0
MESSAGES_BURST = 100.0

logger = get_logger(__name__)


class SocketLeg:
    """A `session.leg.Leg` over a WebSocket. Owns one task, which sends, pings and says goodbye.

    Whoever receives from the socket calls `alive` for whatever comes, then `feed`, `finish`, `message` or `pong` for
    what it is, and in the end `lost` and `wait_closed`. All of them may be called at any time, and do nothing after the
    end.

    Args:
        clock: monotonic seconds, at the event loop's speed.
    """

    kind = "websocket"
    expects_audio = True

    def __init__(
        self, wire: Wire, dialect: Dialect, pace: Pace, handler: LegHandler, clock: Callable[[], float]
    ) -> None:
        self.id = secrets.token_hex(4)
        self.pace = pace
        self._wire = wire
        self._dialect = dialect
        self._handler = handler
        self._clock = clock
        self._intake = Intake(pace, clock)
        self._outbox = Outbox()
        self._pings = Pings()
        self._messages = RateLimit(MESSAGES_PER_S, MESSAGES_BURST)
        self._next_ping_s = self._last_sign_s = clock()
        self._round_trip_s: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._work = asyncio.Event()
        """Set when there may be something to send."""
        self._patience: asyncio.Timeout | None = None
        """Ends the sending when the peer lets it wait too long."""
        self._reason: str | None = None
        """Of the end, from its beginning on."""
        self._gives_up_at_s = math.inf
        self._is_told = False
        """Whoever must hear of the end knows of it."""
        self._closes_wire = False

    def start(self) -> None:
        """Tell the handler that it is connected, and begin to send."""
        if self._reason is None:
            self._begin()
            self._handler.on_connected()

    # ---- what comes from the socket ----------------------------------------------------------------------------------

    async def feed(self, pcm: FloatSamples) -> None:
        """The caller's audio: [n] mono float32 at 24 kHz. One call at a time.

        At `Pace.INPUT`, returns when all of it has found room, which a recording of two minutes has at once; nothing
        else should be read from the socket meanwhile.
        """
        await self._intake.feed(pcm)

    def count_dropped(self, n_samples: int) -> None:
        """So much of the caller's audio, in samples at 24 kHz, was dropped before it could be fed."""
        self._intake.count_dropped(n_samples)

    def finish(self) -> None:
        """No more audio will come. All that came is still answered; then the session closes."""
        self._intake.finish()

    def message(self, text: str) -> None:
        """An event of the client. More than `MESSAGES_PER_S` are dropped, and counted."""
        if self._reason is not None:
            return
        if self._messages.allow(self._clock()):
            self._handler.on_message(text)
        else:
            metrics.EVENTS_REJECTED.labels("too_many").inc()

    def alive(self) -> None:
        """The peer sent something: a message, a ping or a pong."""
        self._last_sign_s = self._clock()

    def pong(self, payload: bytes) -> None:
        """The peer answered a ping."""
        answer = self._pings.answered(payload)
        if answer is None or answer.sent_s <= self._intake.waited_s:
            return  # what waited behind audio tells nothing of the way
        now = self._clock()
        self._round_trip_s = now - answer.sent_s
        if self.pace is Pace.REALTIME:  # else answers may have to wait behind audio, and must not be waited for
            self._outbox.acknowledge(now, answer.sent_samples)
            self._be_patient()
            self._work.set()

    def hold(self) -> None:
        """The peer wants no audio for now: the newest second of it waits."""
        self._outbox.hold()

    def release(self) -> None:
        """The peer wants audio again."""
        self._outbox.release(self._clock())
        self._work.set()

    def tell(self, message: str | bytes) -> None:
        """Send a message of the protocol's own, that is no event of the session."""
        self._put(message, Worth.REST)

    def lost(self, reason: str = "peer_closed") -> None:
        """The socket is gone: give everything up at once."""
        self._end(reason)
        if self._task is not None and not self._closes_wire:
            self._task.cancel()
        self._tell()

    async def wait_closed(self) -> None:
        """Returns when nothing of the leg is left."""
        if self._task is not None:
            await asyncio.wait({self._task})

    # ---- session.leg.Leg ---------------------------------------------------------------------------------------------

    @property
    def last_audio_s(self) -> float:
        return self._intake.last_audio_s

    @property
    def last_sign_of_life_s(self) -> float:
        """The last message, ping or pong. A caller whose audio is yet to be heard is alive."""
        return self._clock() if self._intake.frame_ready and self._reason is None else self._last_sign_s

    @property
    def live(self) -> Live:
        if self.pace is Pace.REALTIME:
            return Live.YES
        has_room = self._outbox.audio_room or self._outbox.held
        return Live.ONCE if self._intake.frame_ready and has_room else Live.NO

    @property
    def input_ended(self) -> bool:
        return self._intake.ended

    def take(self, now: float) -> FloatFrame:
        return self._intake.take(now)

    def skip(self, frames: int) -> int:
        return self._intake.skip(frames)

    def write(self, now: float, pcm: FloatFrame) -> None:
        if self._reason is None:
            self._outbox.write(now, pcm)
            self._work.set()

    def flush(self, now: float) -> Flushed:
        dropped = self._outbox.flush()
        return Flushed(played_ms=self.played_ms(), dropped_ms=dropped // SAMPLES_PER_MS)

    def played_ms(self) -> int:
        return self._outbox.played_samples // SAMPLES_PER_MS

    @property
    def has_events(self) -> bool:
        return self._dialect.has_events

    @property
    def event_room(self) -> int:
        return self._outbox.message_room

    def send_event(self, numbered: Numbered) -> None:
        if isinstance(numbered.event, SessionEnded):
            told = SessionEnded(reason=self._as_told(numbered.event.reason))
            numbered = dataclasses.replace(numbered, event=told)
        for message in self._dialect.event(numbered):
            self._put(message, worth(numbered.event))

    def stats(self) -> LegStats:
        return LegStats(
            jitter_delay_ms=self._intake.queued_ms,
            concealed_ms=self._intake.missing_ms,
            round_trip_ms=None if self._round_trip_s is None else self._round_trip_s * 1000,
            playout_delay_ms=max(0, self._outbox.queued_samples - FRAME_SAMPLES) / SAMPLES_PER_MS,
            lateness_ms=self._outbox.take_worst_wait_s() * 1000,
            input_dropped_ms=self._intake.dropped_ms,
        )

    async def close(self, reason: str) -> None:
        """Send what waits, as long as that takes no more than `GOODBYE_S`, or `TAIL_S`, and close the socket with a
        code and a sentence. May be called twice."""
        self._is_told = True
        if self._reason is None:
            self._end(self._as_told(reason))
            self._gives_up_at_s = self._clock() + (TAIL_S if self._intake.ended else GOODBYE_S)
            self._outbox.finish()
            self._be_patient()
            self._begin()
        await self.wait_closed()

    # ---- sending -----------------------------------------------------------------------------------------------------

    def _put(self, message: str | bytes, worth: Worth) -> None:
        if self._reason is None:
            self._outbox.put(self._clock(), message, worth)
            self._work.set()

    def _begin(self) -> None:
        self._work.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"websocket-leg {self.id}")

    async def _run(self) -> None:
        try:
            await self._send()
        except TimeoutError:
            self._end(NOT_READING)
            if self._intake.ended:
                self._reason = NOT_READING  # it has not heard everything, so that was no good end
        except ConnectionLost:
            self._end("peer_closed")
        except Exception:
            logger.exception("leg failed", leg=self.id)
            self._end("internal_error")
        finally:
            self._patience = None
            metrics.EVENTS_DROPPED.inc(self._outbox.dropped_messages)
            dropped_ms = self._outbox.dropped_samples // SAMPLES_PER_MS
            logger.info("leg closed", leg=self.id, reason=self._reason, dropped_ms=dropped_ms)
        await self._close_wire()
        self._tell()

    async def _send(self) -> None:
        """Until the leg is to be closed and nothing waits any more.

        Raises: TimeoutError, when the peer has taken nothing for too long; ConnectionLost.
        """
        async with asyncio.timeout(None) as self._patience:
            while self._reason is None or not self._outbox.is_empty:
                self._work.clear()
                self._be_patient()
                now = self._clock()
                if now >= self._next_ping_s:
                    await self._wire.ping(self._pings.next(now, self._outbox.played_samples))
                    self._next_ping_s = self._clock() + PING_EVERY_S  # a slow socket takes other things in between
                elif (item := self._outbox.next(now)) is not None:
                    await self._wire.send(item if isinstance(item, str | bytes) else self._dialect.audio(item))
                    self._outbox.sent(self._clock())
                else:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(max(0.0, self._next_ping_s - now)):
                            await self._work.wait()

    def _be_patient(self) -> None:
        """Let the peer take its time, until it has stopped reading by all appearances."""
        if self._patience is None or self._patience.expired():
            return
        now = self._clock()
        patience_s = min(now + STALL_S, self._outbox.stalls_at_s, self._gives_up_at_s) - now
        self._patience.reschedule(asyncio.get_running_loop().time() + max(0.0, patience_s))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _as_told(self, reason: str) -> str:
        """A caller has closed when its audio has ended and was answered, and not when the API says so."""
        return ENDED_ELSEWHERE if reason == "client_closed" and not self._intake.ended else reason

    def _end(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
            self._intake.close()

    async def _close_wire(self) -> None:
        self._closes_wire = True
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._wire.close(*goodbye(self._reason or "internal_error"))
        except (TimeoutError, ConnectionLost):
            logger.info("socket did not close in time", leg=self.id)
        except Exception:
            logger.exception("socket did not close", leg=self.id)

    def _tell(self) -> None:
        if not self._is_told:
            self._is_told = True
            self._handler.on_leg_closed(self._reason or "internal_error")
