"""One conversation, from the offer to the end.

::

    CONNECTING --connected--> PREFILL --slot ready--> LIVE <--> DEGRADED
        |                        |                      |          |
        +------------------------+------- close --------+----------+--> CLOSED

Laws: every session reaches CLOSED, whatever broke. The response starts once, at LIVE, is never superseded, and ends on
every way out. What an engine made for an earlier owner of the slot never gets here: the lease is checked by the engine,
and a closed session takes nothing. All methods run on the event loop's thread; `now` is `time.monotonic()` seconds.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from collections.abc import Callable

from rtc_server import events, metrics
from rtc_server.engine.client import EngineClient, Lease, SlotOutput, SlotStatus, TickResult
from rtc_server.engine.stepper import FRAME_MS
from rtc_server.errors import BadEvent
from rtc_server.log import get_logger
from rtc_server.media.pcm import to_float
from rtc_server.media.vad import SpeechStarted, SpeechStopped, VoiceActivity
from rtc_server.session.bargein import BargeInPolicy
from rtc_server.session.leg import FloatFrame, Leg
from rtc_server.session.liveness import LivenessRules, Verdict
from rtc_server.session.playback import PlaybackCursor

log = get_logger(__name__)

AUDIBLE_RMS = 0.005
"""-46 dBFS: the agent is heard to speak."""
STATS_EVERY_S = 1.0


class State(enum.Enum):
    CONNECTING = "connecting"
    PREFILL = "prefill"
    LIVE = "live"
    DEGRADED = "degraded"
    CLOSED = "closed"


class Session:
    """Owns one lease and one leg, and gives both back when it closes."""

    def __init__(
        self,
        session_id: str,
        engine: EngineClient,
        lease: Lease,
        clock: Callable[[], float],
        rules: LivenessRules | None = None,
        on_closed: Callable[[Session], None] | None = None,
    ) -> None:
        self.id = session_id
        self.lease = lease
        self.state = State.CONNECTING
        self.frames = 0
        """Live frames so far: the session's own clock, 80 ms each."""
        self.shed_frames = 0
        self._engine = engine
        self._clock = clock
        self._rules = rules or LivenessRules()
        self._on_closed = on_closed
        self._leg: Leg | None = None
        self._slot = SlotStatus.PREFILL
        self._prefill = (0, 1)
        """(done, total), in the engine's unit."""
        self._voice_activity = VoiceActivity()
        self._user_speaks = False
        self._barge_in = BargeInPolicy()
        self._cursor = PlaybackCursor()
        self._response_open = False
        self._transcript_item = 0
        self._degraded_since_s = 0.0
        self._next_stats_s = 0.0
        self._opened_s = clock()
        self._closing: asyncio.Task[None] | None = None
        self._seq = 0

    # ---- the leg's side ----------------------------------------------------------------------------------------------

    def attach(self, leg: Leg) -> None:
        self._leg = leg

    @property
    def leg(self) -> Leg:
        assert self._leg is not None
        return self._leg

    def on_connected(self) -> None:
        """The peer is there and media may flow."""
        if self.state is not State.CONNECTING:
            return
        spec = self._engine.spec
        self._to(State.PREFILL)
        metrics.SETUP_SECONDS.labels("connected").observe(self._clock() - self._opened_s)
        self._send(
            events.SessionCreated(
                id=self.id,
                engine={"name": spec.name, "summary": spec.summary, "device": spec.device},
                capabilities=dataclasses.asdict(spec.capabilities),
            )
        )
        if self._slot is SlotStatus.PREFILL:
            done, total = self._prefill
            self._send(events.SessionPrefill(done=done, total=total))

    def on_message(self, message: str | bytes) -> None:
        """One message of the client. A malformed one is answered with `error`, and the call goes on."""
        if self.state is State.CLOSED:
            return
        try:
            event = events.decode(message)
        except BadEvent as error:
            metrics.EVENTS_REJECTED.labels(error.code).inc()
            if not isinstance(error, events.UnknownEvent):
                self._send(events.ErrorEvent(**error.to_json()))
            return
        match event:
            case events.ResponseCancel():
                self._interrupt("client", drop=True)
            case events.PlaybackAck(cursor=cursor):
                self._cursor.acknowledge(cursor, self.leg.played_ms())
            case events.InputAppend():
                refusal = BadEvent("input.append is for sockets", hint="this call's audio comes over RTP")
                self._send(events.ErrorEvent(**refusal.to_json()))
            case events.Close():
                self.close("client_closed")
            case _:  # input.commit, response.create: the response runs since LIVE
                pass

    def on_leg_closed(self, reason: str) -> None:
        self.close(reason)

    # ---- the conductor's side ----------------------------------------------------------------------------------------

    @property
    def wants_step(self) -> bool:
        """Should the engine step this session in the coming tick? Otherwise its slot is only kept."""
        return self.state is State.LIVE or (self.state is State.PREFILL and self._slot is not SlotStatus.PREFILL)

    def gather(self, now: float) -> FloatFrame:
        """The user's next frame; only when `wants_step`."""
        return self.leg.take(now)

    def shed(self, frames: int) -> None:
        """So many frames of input are past their time. They go, so that delay stays bounded."""
        if frames and self.state is State.LIVE:
            self.leg.skip(frames)
            self.shed_frames += frames

    def deliver(self, now: float, user_pcm: FloatFrame, output: SlotOutput, tick: TickResult) -> None:
        """What the tick made: the agent's frame to the leg, words to the event channel."""
        if self.state is State.CLOSED:
            return
        self._slot = output.status
        match output.status:
            case SlotStatus.LIVE:
                if self.state is State.PREFILL:
                    self._go_live(now)
                if self.state is State.LIVE:
                    self._deliver_frame(now, user_pcm, output)
            case SlotStatus.FAILED:
                self.close("engine_failed")
            case SlotStatus.REVOKED:
                self.close("engine_lost")
            case SlotStatus.PREFILL:
                self._tell_progress(output.prefill)
            case _:
                pass
        self._watch(now)
        if self.state is State.LIVE and now >= self._next_stats_s:
            self._send_stats(now, tick)

    def announce_end(self, in_s: float, reason: str) -> None:
        if self.state is not State.CLOSED:
            self._send(events.SessionEnding(in_s=in_s, reason=reason))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """End the session from any state. Returns at once; `wait_closed` waits until lease and leg are given back."""
        if self.state is State.CLOSED:
            return
        if self._response_open:
            self._response_open = False
            self._send(events.ResponseDone(response_index=0))
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
            if self._leg is not None:
                await self._leg.close(reason)
        except Exception:
            log.exception("leg did not close cleanly", session_id=self.id)
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
        if self._leg is not None:
            self._seq += 1
            self._leg.send_event(events.Numbered(self._seq, event))

    def _go_live(self, now: float) -> None:
        self._to(State.LIVE)
        self._next_stats_s = now + STATS_EVERY_S
        total = self._prefill[1]
        self._send(events.SessionPrefill(done=total, total=total))
        self._send(events.SessionReady())
        self._response_open = True
        self._send(events.ResponseCreated(response_index=0))
        log.info("session live", session_id=self.id, kind=self.leg.kind, slot=self.lease.slot)

    def _tell_progress(self, prefill: tuple[int, int]) -> None:
        """At most once a tick; an engine that cannot say how far it is leaves it at 0 of 1."""
        if prefill[1] == 0 or prefill == self._prefill:
            return
        self._prefill = prefill
        if self.state is State.PREFILL:
            self._send(events.SessionPrefill(*prefill))

    def _deliver_frame(self, now: float, user_pcm: FloatFrame, output: SlotOutput) -> None:
        frame, self.frames = self.frames, self.frames + 1
        timestamp: int | None = None
        audible = False
        if output.pcm is not None:
            pcm = to_float(output.pcm)
            audible = float(pcm @ pcm) > AUDIBLE_RMS**2 * pcm.size
            timestamp = self.leg.write(now, pcm)
        if output.text:
            self._send(events.ResponseDelta(response_index=0, data=output.text, frame=frame, rtp_timestamp=timestamp))
        for heard in output.heard:
            self._send(
                events.InputTranscript(
                    item=self._transcript_item,
                    text=heard.text,
                    final=heard.final,
                    start_ms=heard.start_frame * FRAME_MS,
                    end_ms=heard.end_frame * FRAME_MS,
                )
            )
            self._transcript_item += heard.final
        self._listen(frame, user_pcm, audible)

    def _listen(self, frame: int, user_pcm: FloatFrame, agent_audible: bool) -> None:
        onset_frames = 0
        match self._voice_activity.update(user_pcm):
            case SpeechStarted(frame=start):
                self._user_speaks = True
                onset_frames = frame - start
                self._send(events.InputSpeechStarted(audio_ms=start * FRAME_MS))
            case SpeechStopped(frame=end):
                self._user_speaks = False
                self._send(events.InputSpeechStopped(audio_ms=end * FRAME_MS))
            case None:
                pass
        if self._barge_in.update(self._user_speaks, agent_audible, onset_frames):
            self._interrupt("speech", drop=not self._engine.spec.hears_interruptions)

    def _interrupt(self, source: str, drop: bool) -> None:
        """Speech over the agent, or the client's `response.cancel`. The response itself goes on."""
        if self.state is not State.LIVE:
            return
        metrics.BARGE_INS.labels(source).inc()
        if drop:
            self._cursor.epoch += 1
        if source == "speech":
            self._send(
                events.BargeIn(epoch=self._cursor.epoch, source=source, audio_ms=self.frames * FRAME_MS),
            )
        if drop:
            flushed = self.leg.flush(self._clock())
            self._send(
                events.ResponseCancelled(
                    response_index=0,
                    epoch=self._cursor.epoch,
                    played_ms=self._cursor.heard_ms(flushed.played_ms),
                    dropped_ms=flushed.dropped_ms,
                )
            )

    def _watch(self, now: float) -> None:
        if self.state in (State.CONNECTING, State.CLOSED):
            return  # the leg has its own deadlines for connecting
        leg = self.leg
        verdict = self._rules.judge(now, leg.last_audio_s, leg.last_sign_of_life_s, leg.expects_audio)
        match verdict:
            case Verdict.LIVE:
                if self.state is State.DEGRADED:
                    self._to(State.LIVE)
                    self._send(events.SessionResumed(gap_ms=round((now - self._degraded_since_s) * 1000)))
            case Verdict.DEGRADED:
                if self.state is State.LIVE:
                    self._to(State.DEGRADED)
                    self._degraded_since_s = now
                    self._send(events.SessionDegraded(reason="no audio and no sign of life"))
            case Verdict.IDLE_TOO_LONG | Verdict.GONE:
                self.close(verdict.value)

    def _send_stats(self, now: float, tick: TickResult) -> None:
        self._next_stats_s = now + STATS_EVERY_S
        leg = self.leg.stats()
        self._send(
            events.SessionStats(
                loss=round(leg.loss, 4),
                jitter_delay_ms=round(leg.jitter_delay_ms, 1),
                lateness_ms=round(leg.lateness_ms, 1),
                tick_ms=round(tick.step_s * 1000, 2),
                shed=self.shed_frames,
                round_trip_ms=None if leg.round_trip_ms is None else round(leg.round_trip_ms, 1),
                concealed_ms=leg.concealed_ms,
                playout_delay_ms=round(leg.playout_delay_ms, 1),
            )
        )
