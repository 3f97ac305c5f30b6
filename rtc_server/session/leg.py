"""What a transport offers a session: one caller's connection, whatever its wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.client import Live
from rtc_server.events import Numbered

FloatFrame = NDArray[np.float32]
"""[1920] mono samples in [-1, 1] at 24 kHz."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """What a `flush` found: agent audio that was sent so far, and audio made but never sent."""

    played_ms: int
    dropped_ms: int


@dataclass(frozen=True, slots=True)
class LegStats:
    """Figures for `session.stats`; rates over the time since the last reading, None where nothing is known."""

    loss: float = 0.0
    """Share of the peer's packets that were lost, 0..1."""
    jitter_delay_ms: float = 0.0
    """What the jitter buffer adds at present."""
    concealed_ms: int = 0
    """Invented audio since the call began."""
    round_trip_ms: float | None = None
    playout_delay_ms: float = 0.0
    """Agent audio that waits to be sent, beyond one frame."""
    lateness_ms: float = 0.0
    """Worst departure of an outgoing packet behind its time since the last reading."""
    input_dropped_ms: int = 0
    """The caller's audio that was thrown away since the call began, because it came faster than time passes."""


class Leg(Protocol):
    """One caller. Every method is called on the event loop's thread; `now` is `time.monotonic()` seconds.

    Nothing here blocks or awaits, except `close`.
    """

    kind: str
    """``webrtc``, ``websocket`` or ``sip``; goes into logs and metrics."""

    @property
    def expects_audio(self) -> bool:
        """False for a caller that only listens, or is on hold: then silence has no time limit."""

    @property
    def last_audio_s(self) -> float:
        """When audio last came, or when the leg connected."""

    @property
    def last_sign_of_life_s(self) -> float:
        """When the peer last proved to be there: an authenticated STUN check, a pong, a refreshed dialog."""

    @property
    def live(self) -> Live:
        """How the engine is to be stepped for this caller: YES where time is the clock; where the caller's own audio
        is, ONCE when a whole frame of it is there, else NO."""

    @property
    def input_ended(self) -> bool:
        """The caller has said that no more audio will come, and all that came has been taken."""

    def take(self, now: float) -> FloatFrame:
        """Exactly one frame of the user's voice. What is missing is concealed now, never waited for."""

    def skip(self, frames: int) -> int:
        """Pass over frames of the user's voice whose time is gone. Returns how many were: none where the caller's audio
        is the clock."""

    def write(self, now: float, pcm: FloatFrame) -> int | None:
        """Queue one frame of the agent's voice for playout. Returns the RTP timestamp of its first sample, None on a
        leg without RTP."""

    def flush(self, now: float) -> Flushed:
        """Drop agent audio that is not sent yet, after a short fade."""

    def played_ms(self) -> int:
        """Agent audio sent so far, silence of underruns not counted."""

    @property
    def has_events(self) -> bool:
        """The caller can get events: an event channel was agreed on."""

    @property
    def event_room(self) -> int:
        """How many events `send_event` takes at present without losing any."""

    def send_event(self, numbered: Numbered) -> None:
        """Queue an event for the caller. Bounded: a caller that does not read loses text and statistics first."""

    def stats(self) -> LegStats: ...

    async def close(self, reason: str) -> None:
        """Say goodbye and free everything. May be called twice."""


class LegHandler(Protocol):
    """Who is told about a leg: an `Attachment`, outside of tests. Called on the event loop's thread."""

    def on_connected(self) -> None:
        """Media flows both ways. Events that are sent from here on wait for their channel by themselves."""

    def on_message(self, message: str | bytes) -> None:
        """An event of the client. The transport hands on at most about 50 a second."""

    def on_digit(self, digit: str) -> None:
        """The caller has pressed a key of the phone: ``0``-``9``, ``*``, ``#``, ``A``-``D``."""

    def on_leg_closed(self, reason: str) -> None:
        """The leg ended by itself and has freed everything: ``peer_closed``, ``internal_error``, or a reason of its
        transport, such as ``ice_failed`` or ``not_reading``. Never called because of `Leg.close`."""
