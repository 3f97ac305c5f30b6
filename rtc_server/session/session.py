"""One conversation, from the offer to the end.

::

    CONNECTING --connected--> PREFILL --slot ready--> LIVE <--> DEGRADED
        |                        |                      |          |
        +------------------------+------- close --------+----------+--> CLOSED

Laws: every session reaches CLOSED, whatever broke. The response starts once, at LIVE, is never superseded, and ends on
every way out. What an engine made for an earlier owner of the slot never gets here: the lease is checked by the engine,
and a closed session takes nothing. All methods run on the event loop's thread; `now` is `time.monotonic()` seconds.

A conversation is not its connection. A leg that ends leaves a LIVE session DEGRADED, and who has the token may bring
another: it takes over when it is connected, and until then the old leg goes on. The slot stays, and with it what the
model remembers; no engine time passes while the caller is away.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rtc_server import events, metrics
from rtc_server.engine.client import EngineClient, Lease, Live, SlotOutput, SlotStatus, TickResult
from rtc_server.engine.stepper import FRAME_SAMPLES
from rtc_server.errors import BadEvent, SessionNotFound
from rtc_server.log import get_logger
from rtc_server.session.attachment import Attachment
from rtc_server.session.conversation import Conversation
from rtc_server.session.eventlog import EventLog
from rtc_server.session.leg import FloatFrame, Leg, LegStats
from rtc_server.session.legs import Legs
from rtc_server.session.liveness import LivenessRules, Verdict
from rtc_server.session.resume import ResumeToken

log = get_logger(__name__)

STATS_EVERY_S = 1.0


class State(enum.Enum):
    CONNECTING = "connecting"
    PREFILL = "prefill"
    LIVE = "live"
    DEGRADED = "degraded"
    CLOSED = "closed"


class Away(NamedTuple):
    """The caller's connection is closed, and no other has taken its place yet."""

    since_s: float
    reason: str
    seen_s: float
    """The leg's last sign of life."""


class Ending(NamedTuple):
    at_s: float
    reason: str


class Session:
    """Owns one lease and the legs of one caller, and gives them back when it closes. An `attachment.LegOwner`."""

    def __init__(
        self,
        session_id: str,
        engine: EngineClient,
        lease: Lease,
        clock: Callable[[], float],
        rules: LivenessRules,
        on_closed: Callable[[Session], None] | None = None,
    ) -> None:
        self.id = session_id
        self.lease = lease
        self.token = ResumeToken()
        self.state = State.CONNECTING
        self.shed_frames = 0
        self._engine = engine
        self._clock = clock
        self._rules = rules
        self._on_closed = on_closed
        self._legs = Legs(session_id)
        self._log = EventLog()
        self._away: Away | None = None
        self._can_return = False
        self._ending: Ending | None = None
        self._slot = SlotStatus.PREFILL
        self._prefill = (0, 1)
        """(done, total), in the engine's unit."""
        self._conversation = Conversation(self._send, engine.spec.hears_interruptions)
        self._degraded_since_s = 0.0
        self._next_stats_s = 0.0
        self._told_dropped_ms = 0
        self._closing: asyncio.Task[None] | None = None

    @property
    def frames(self) -> int:
        """Live frames so far: the session's own clock, 80 ms each."""
        return self._conversation.frames

    # ---- the legs ----------------------------------------------------------------------------------------------------

    def expect_leg(self, last_event: int | None = None) -> Attachment:
        """A handler for a leg that is about to be made; the leg counts from `Attachment.attach`.

        `last_event`: number of the last event that a caller knows of who comes back.
        """
        return Attachment(self, self._clock(), last_event)

    def give_token(self) -> str:
        """The resume token, for the caller: from now on its conversation waits when its connection is closed."""
        self._can_return = True
        return self.token.secret

    @property
    def leg(self) -> Leg | None:
        """The leg that carries the conversation; None while the caller is away."""
        return self._legs.leg

    @property
    def legs(self) -> tuple[Leg, ...]:
        """The leg that carries the conversation, and before it the one that is being set up to take over."""
        return self._legs.all

    def leg_attached(self, attachment: Attachment) -> None:
        if self.state is State.CLOSED:
            self._legs.close(attachment, "session_ended")
            raise SessionNotFound("the session has ended", hint="start a new one with POST /v1/sessions")
        if self._legs.current is None and self._away is None:
            self._legs.current = attachment
        else:
            self._legs.expect(attachment)

    def leg_connected(self, attachment: Attachment) -> None:
        """The peer is there and media may flow."""
        if self.state is State.CLOSED:
            return
        if attachment is self._legs.coming:
            self._take_over(attachment)
        if attachment is self._legs.current and self.state is State.CONNECTING:
            self._begin(attachment)

    def leg_message(self, attachment: Attachment, message: str | bytes) -> None:
        """A malformed message is answered with `error`, and the call goes on."""
        leg = attachment.leg
        if self.state is State.CLOSED or attachment is not self._legs.current or leg is None:
            return
        try:
            event = events.decode(message)
        except BadEvent as error:
            metrics.EVENTS_REJECTED.labels(error.code).inc()
            if not isinstance(error, events.UnknownEvent):
                self._send(events.ErrorEvent(**error.to_json()))
            return
        match event:
            case events.ResponseCancel(id=cancel_id):
                self._conversation.cancel(self._clock(), leg, cancel_id)
            case events.PlaybackAck(cursor=cursor_ms):
                self._conversation.acknowledge(leg, cursor_ms)
            case events.InputAppend():
                refusal = BadEvent("input.append is for sockets", hint="this call's audio comes over RTP")
                self._send(events.ErrorEvent(**refusal.to_json()))
            case events.Close():
                self.close("client_closed")
            case _:  # input.commit, response.create: the response runs since LIVE
                pass

    def leg_digit(self, attachment: Attachment, digit: str) -> None:
        if self.state is not State.CLOSED and attachment is self._legs.current:
            self._send(events.Dtmf(digit=digit))

    def leg_closed(self, attachment: Attachment, reason: str) -> None:
        if attachment is self._legs.coming:
            self._legs.coming = None
        elif attachment is self._legs.current and (leg := attachment.leg) is not None:
            self._legs.current = None
            self._tell_last_drops(leg)
            self._conversation.end_leg(leg)
            self._away = Away(self._clock(), reason, max(leg.last_audio_s, leg.last_sign_of_life_s))
        self._watch(self._clock())

    def _begin(self, attachment: Attachment) -> None:
        spec = self._engine.spec
        self._to(State.PREFILL)
        metrics.SETUP_SECONDS.labels("connected").observe(self._clock() - attachment.asked_s)
        created = events.SessionCreated(
            id=self.id,
            engine={"name": spec.name, "summary": spec.summary, "device": spec.device},
            capabilities=dataclasses.asdict(spec.capabilities),
            resume_token=self.token.secret,
        )
        self._log.append(created, self._clock())
        self._greet(attachment)
        self._send_prefill()
        self._tell_ending()

    def _take_over(self, attachment: Attachment) -> None:
        """The coming leg becomes the current one. The conversation goes on where it stands."""
        now, seen_s = self._clock(), self._last_seen_s()
        known_seq = attachment.last_event if attachment.last_event is not None else self._log.last_before(seen_s)
        if (leg := self._legs.leg) is not None and self.state is not State.CONNECTING:
            self._tell_last_drops(leg)
            self._conversation.end_leg(leg)
            self._send(events.SessionEnded(reason="replaced"))  # or its client would fight for the call
        self._legs.take_over()
        self._away, self._told_dropped_ms = None, 0
        if self.state is State.CONNECTING:
            return  # nobody was connected yet: this is the first leg
        metrics.SESSIONS_RESUMED.inc()
        metrics.SETUP_SECONDS.labels("resumed").observe(now - attachment.asked_s)
        log.info("session resumed", session_id=self.id, state=self.state.value, frames=self.frames)
        self._greet(attachment)
        replay = self._log.replay(known_seq)
        attachment.replay(replay.events)
        if self.state is State.PREFILL:
            self._send_prefill()
        else:
            self._go_on(now, replay.missed)
        self._tell_ending()

    def _last_seen_s(self) -> float:
        if self._away is not None:
            return self._away.seen_s
        leg = self._legs.leg
        return self._clock() if leg is None else max(leg.last_audio_s, leg.last_sign_of_life_s)

    def _greet(self, attachment: Attachment) -> None:
        """Tell what every connection hears first, the token in it, as soon as there is a channel to hear it on."""
        opening, leg = self._log.opening, attachment.leg
        if opening is not None and leg is not None and leg.has_events and not attachment.greeted:
            attachment.greeted = self._can_return = True
            attachment.send(opening)

    # ---- the conductor's side ----------------------------------------------------------------------------------------

    @property
    def live(self) -> Live:
        """Should the engine step this session in the coming tick? Otherwise its slot is only kept."""
        leg = self._legs.leg
        prefilled = self.state is State.LIVE or (self.state is State.PREFILL and self._slot is not SlotStatus.PREFILL)
        return leg.live if leg is not None and prefilled else Live.NO

    def gather(self, now: float) -> FloatFrame:
        """The user's next frame; silence of a caller who is away."""
        leg = self._legs.leg
        if leg is None or (self.state is State.DEGRADED and leg.live is not Live.YES):
            return np.zeros(FRAME_SAMPLES, np.float32)  # audio that is the clock itself waits while the model is frozen
        return leg.take(now)

    def shed(self, frames: int) -> None:
        """So many frames of input are past their time. They go, so that delay stays bounded."""
        if frames and self.state is State.LIVE and (leg := self._legs.leg) is not None:
            self.shed_frames += leg.skip(frames)

    def deliver(self, now: float, user_pcm: FloatFrame, output: SlotOutput, tick: TickResult) -> None:
        """What the tick made: the agent's frame to the leg, words to the event channel."""
        if self.state is State.CLOSED:
            return
        if self._legs.current is not None:
            self._greet(self._legs.current)  # a later offer may have brought the channel
        self._slot = output.status
        match output.status:
            case SlotStatus.LIVE:
                if self.state is State.PREFILL:
                    self._go_live(now)
                # The leg may have gone while the engine worked: what it made has happened all the same.
                self._conversation.deliver(now, self._legs.leg, user_pcm, output)
            case SlotStatus.FAILED:
                self.close("engine_failed")
            case SlotStatus.REVOKED:
                self.close("engine_lost")
            case SlotStatus.PREFILL:
                self._tell_progress(output.prefill)
            case SlotStatus.READY | SlotStatus.FROZEN:
                if self.state is State.PREFILL and (leg := self._legs.leg) is not None and leg.live is Live.NO:
                    self._go_live(now)  # a caller whose audio is the clock waits to be told before sending any
        self._watch(now)
        if (leg := self._legs.leg) is not None and leg.input_ended and self.state is not State.CONNECTING:
            self.close("client_closed")
        if self._legs.current is not None:
            self._legs.current.tick()
        if self.state is State.LIVE and now >= self._next_stats_s and (leg := self._legs.leg) is not None:
            self._next_stats_s = now + STATS_EVERY_S
            stats = leg.stats()
            self._tell_dropped(stats.input_dropped_ms)
            self._send(_stats(stats, tick, self.shed_frames))

    def announce_end(self, in_s: float, reason: str) -> None:
        """Tell the caller, and each leg that comes, how long there is."""
        self._ending = Ending(self._clock() + in_s, reason)
        if self.state not in (State.CONNECTING, State.CLOSED):
            self._tell_ending()

    def _tell_ending(self) -> None:
        if self._ending is not None:
            in_s = max(0.0, round(self._ending.at_s - self._clock(), 3))
            self._send(events.SessionEnding(in_s=in_s, reason=self._ending.reason))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """End the session from any state. Returns at once; `wait_closed` waits until lease and legs are given back."""
        if self.state is State.CLOSED:
            return
        if (leg := self._legs.leg) is not None:
            self._tell_last_drops(leg)
        self._conversation.end()
        self._send(events.SessionEnded(reason=reason))
        self._to(State.CLOSED)
        metrics.SESSIONS_ENDED.labels(reason).inc()
        log.info("session closed", session_id=self.id, reason=reason, frames=self.frames)
        self._closing = asyncio.get_running_loop().create_task(self._give_back(reason), name=f"session-close {self.id}")

    async def wait_closed(self) -> None:
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _give_back(self, reason: str) -> None:
        try:
            await self._engine.release(self.lease)
        except Exception:
            log.exception("lease not released", session_id=self.id)
        try:
            await self._legs.close_all(reason)
        finally:
            if self._on_closed is not None:
                self._on_closed(self)

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _to(self, state: State) -> None:
        metrics.SESSIONS.labels(self.state.value).dec()
        self.state = state
        if state is not State.CLOSED:
            metrics.SESSIONS.labels(state.value).inc()

    def _send(self, event: events.ServerEvent) -> None:
        numbered = self._log.append(event, self._clock())
        if self._legs.current is not None:
            self._legs.current.send(numbered)

    def _send_prefill(self) -> None:
        if self._slot is SlotStatus.PREFILL:
            self._send(events.SessionPrefill(*self._prefill))

    def _go_live(self, now: float) -> None:
        self._to(State.LIVE)
        self._next_stats_s = now + STATS_EVERY_S
        total = self._prefill[1]
        self._send(events.SessionPrefill(done=total, total=total))
        self._send(events.SessionReady())
        self._conversation.begin()
        log.info("session live", session_id=self.id, slot=self.lease.slot)

    def _tell_progress(self, prefill: tuple[int, int]) -> None:
        """At most once a tick; an engine that cannot say how far it is leaves it at 0 of 1."""
        if prefill[1] == 0 or prefill == self._prefill:
            return
        self._prefill = prefill
        if self.state is State.PREFILL:
            self._send_prefill()

    def _tell_dropped(self, input_dropped_ms: int) -> None:
        dropped_ms = input_dropped_ms - self._told_dropped_ms
        if dropped_ms > 0:
            self._told_dropped_ms = input_dropped_ms
            metrics.INPUT_DROPPED_SECONDS.inc(dropped_ms / 1000)
            self._send(events.InputDropped(dropped_ms=dropped_ms))

    def _tell_last_drops(self, leg: Leg) -> None:
        """There will be no other figures of this leg."""
        if self.state in (State.LIVE, State.DEGRADED):
            self._tell_dropped(leg.stats().input_dropped_ms)

    # ---- is the caller there? ----------------------------------------------------------------------------------------

    def _watch(self, now: float) -> None:
        if self.state is State.CLOSED:
            return
        returning = self._legs.coming is not None
        if self._away is not None:
            can_return = self._can_return and self._conversation.is_open
            if self._rules.judge_away(now, self._away.since_s, can_return, returning) is Verdict.GONE:
                self.close(self._away.reason)
            elif self.state is State.LIVE:
                self._degrade(now, "the connection was closed")
            return
        leg = self._legs.leg
        if self.state is State.CONNECTING or leg is None:
            return  # the leg has its own deadlines for connecting
        verdict = self._rules.judge(now, leg.last_audio_s, leg.last_sign_of_life_s, leg.expects_audio, returning)
        match verdict:
            case Verdict.LIVE:
                if self.state is State.DEGRADED:
                    self._go_on(now, missed=0)
            case Verdict.DEGRADED:
                if self.state is State.LIVE:
                    self._degrade(now, "no audio and no sign of life")
            case Verdict.IDLE_TOO_LONG | Verdict.GONE:
                self.close(verdict.value)

    def _degrade(self, now: float, reason: str) -> None:
        self._to(State.DEGRADED)
        self._degraded_since_s = now
        self._send(events.SessionDegraded(reason=reason))

    def _go_on(self, now: float, missed: int) -> None:
        """The caller is there again, or there over another leg."""
        gap_ms = 0
        if self.state is State.DEGRADED:
            self._to(State.LIVE)
            gap_ms = round((now - self._degraded_since_s) * 1000)
        self._send(events.SessionResumed(context="kept", gap_ms=gap_ms, missed=missed))


def _stats(leg: LegStats, tick: TickResult, shed_frames: int) -> events.SessionStats:
    return events.SessionStats(
        loss=round(leg.loss, 4),
        jitter_delay_ms=round(leg.jitter_delay_ms, 1),
        lateness_ms=round(leg.lateness_ms, 1),
        tick_ms=round(tick.step_s * 1000, 2),
        shed=shed_frames,
        round_trip_ms=None if leg.round_trip_ms is None else round(leg.round_trip_ms, 1),
        concealed_ms=leg.concealed_ms,
        playout_delay_ms=round(leg.playout_delay_ms, 1),
    )
