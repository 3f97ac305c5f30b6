"""What is said between the caller and a live agent: frames both ways, words, speech, interruptions.

It begins when the engine steps the slot for the first time and ends with the session; legs come and go meanwhile. A
frame that was stepped has happened, even when nobody was there to hear it: it counts, and its words are events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rtc_server import events, metrics
from rtc_server.engine.client import SlotOutput
from rtc_server.engine.stepper import FRAME_MS
from rtc_server.media.pcm import to_float
from rtc_server.session.leg import FloatFrame, Leg
from rtc_server.session.listening import Listening
from rtc_server.session.playback import PlaybackCursor

AUDIBLE_RMS = 0.005
"""-46 dBFS: the agent is heard to speak."""
CANCELS_REMEMBERED = 64
"""Ids of `response.cancel`: its second copy comes within a round trip or two."""


class Conversation:
    """Owns the response, the playback cursor and what is known of the user's speech.

    Args:
        send: numbers an event and tells it to whoever is there.
        hears_interruptions: the engine does, so that speech over the agent drops nothing.
    """

    def __init__(self, send: Callable[[events.ServerEvent], None], hears_interruptions: bool) -> None:
        self.frames = 0
        """Live frames so far: the session's own clock, 80 ms each."""
        self.is_open = False
        """The response runs."""
        self._send = send
        self._hears_interruptions = hears_interruptions
        self._listening = Listening()
        self._cursor = PlaybackCursor()
        self._cancels: deque[str] = deque(maxlen=CANCELS_REMEMBERED)
        self._transcript_item = 0

    def begin(self) -> None:
        self.is_open = True
        self._send(events.ResponseCreated(response_index=0))

    def end(self) -> None:
        if self.is_open:
            self.is_open = False
            self._send(events.ResponseDone(response_index=0))

    def end_leg(self, leg: Leg) -> None:
        """This leg has sent all that it ever will."""
        self._cursor.end_leg(leg.played_ms())

    def deliver(self, now: float, leg: Leg | None, user_pcm: FloatFrame, output: SlotOutput) -> None:
        """One frame that the engine stepped. `leg` None: the caller went away while it was made."""
        frame, self.frames = self.frames, self.frames + 1
        timestamp: int | None = None
        audible = False
        if output.pcm is not None:
            pcm = to_float(output.pcm)
            audible = float(pcm @ pcm) > AUDIBLE_RMS**2 * pcm.size
            timestamp = leg.write(now, pcm) if leg is not None else None
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
        change, interrupts = self._listening.update(user_pcm, audible)
        if change is not None:
            self._send(change)
        if interrupts and leg is not None:
            self._interrupt(now, leg, "speech", drop=not self._hears_interruptions)

    def cancel(self, now: float, leg: Leg, cancel_id: str | None) -> None:
        """The client's `response.cancel`. One that has the id of an earlier one is its second copy."""
        if not self.is_open or cancel_id in self._cancels:
            return
        if cancel_id is not None:
            self._cancels.append(cancel_id)
        self._interrupt(now, leg, "client", drop=True)

    def acknowledge(self, leg: Leg, cursor_ms: int) -> None:
        """The client has heard `cursor_ms` of what this leg sent."""
        self._cursor.acknowledge(cursor_ms, leg.played_ms())

    def _interrupt(self, now: float, leg: Leg, source: str, drop: bool) -> None:
        """Speech over the agent, or the client's wish. The response itself goes on."""
        metrics.BARGE_INS.labels(source).inc()
        if drop:
            self._cursor.epoch += 1
        epoch = self._cursor.epoch
        if source == "speech":
            self._send(events.BargeIn(epoch=epoch, source=source, audio_ms=self.frames * FRAME_MS))
        if drop:
            flushed = leg.flush(now)
            played_ms = self._cursor.heard_ms(flushed.played_ms)
            self._send(events.ResponseCancelled(0, epoch=epoch, played_ms=played_ms, dropped_ms=flushed.dropped_ms))
