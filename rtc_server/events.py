"""The event protocol: JSON objects with a ``type``, over the data channel ``events`` or a WebSocket. Sans-IO.

Server events are frozen dataclasses, `encode` turns one into text. Client events are checked by `decode`, which raises
`BadEvent` on a malformed message and `UnknownEvent` on a type that this version does not know (to be counted and
ignored). Unknown fields are ignored. Adding a type or a field is fine; renaming one means a new `PROTOCOL`.

The laws of a clock-driven response: it starts once, when the session goes live, without waiting for audio; it is never
superseded; it ends on every way out. ``response.cancel`` empties the playout and bumps the epoch of the playback
cursor, nothing else: the engine goes on and hears the interruption by itself.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rtc_server.errors import BadEvent

PROTOCOL = "rtc_server.events/1"
MAX_MESSAGE_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    type: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, **dataclasses.asdict(self)}


@dataclass(frozen=True, slots=True)
class SessionCreated(ServerEvent):
    type = "session.created"
    id: str
    engine: dict[str, Any]
    """name, summary, device"""
    capabilities: dict[str, Any]
    """input, output, proactive"""
    protocol: str = PROTOCOL
    frame_ms: int = 80
    resume_token: str | None = dataclasses.field(default=None, repr=False)
    """Who has it may take the conversation over with a new call: the token of its owner, and of nobody else."""


@dataclass(frozen=True, slots=True)
class SessionQueued(ServerEvent):
    type = "session.queued"
    position: int


@dataclass(frozen=True, slots=True)
class SessionPrefill(ServerEvent):
    type = "session.prefill"
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class SessionReady(ServerEvent):
    type = "session.ready"


@dataclass(frozen=True, slots=True)
class ResponseCreated(ServerEvent):
    type = "response.created"
    response_index: int


@dataclass(frozen=True, slots=True)
class ResponseDelta(ServerEvent):
    """A piece of the inner monologue, stamped so that a page can show the word when it is heard."""

    type = "response.delta"
    response_index: int
    data: str
    frame: int
    """The session's engine frame, from 0 at LIVE."""
    rtp_timestamp: int | None
    """RTP timestamp, in the stream's own clock, at which the frame starts to play. None on legs without RTP, and where
    the event is told again: the stream that it was part of is gone."""
    modality: str = "text"


@dataclass(frozen=True, slots=True)
class ResponseCancelled(ServerEvent):
    type = "response.cancelled"
    response_index: int
    epoch: int
    played_ms: int
    dropped_ms: int


@dataclass(frozen=True, slots=True)
class ResponseDone(ServerEvent):
    type = "response.done"
    response_index: int


@dataclass(frozen=True, slots=True)
class InputSpeechStarted(ServerEvent):
    type = "input.speech_started"
    audio_ms: int
    """Position in the user's audio, from 0 at LIVE."""


@dataclass(frozen=True, slots=True)
class InputSpeechStopped(ServerEvent):
    type = "input.speech_stopped"
    audio_ms: int


@dataclass(frozen=True, slots=True)
class InputDropped(ServerEvent):
    """Audio of the user came faster than time passes, and the oldest of it was thrown away. Sockets only."""

    type = "input.dropped"
    dropped_ms: int
    """Since the last event of this type."""


@dataclass(frozen=True, slots=True)
class InputTranscript(ServerEvent):
    type = "input.transcript"
    item: int
    text: str
    final: bool
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class BargeIn(ServerEvent):
    type = "barge_in"
    epoch: int
    source: str
    """``speech``"""
    audio_ms: int


@dataclass(frozen=True, slots=True)
class Dtmf(ServerEvent):
    type = "dtmf"
    digit: str


@dataclass(frozen=True, slots=True)
class SessionStats(ServerEvent):
    type = "session.stats"
    loss: float
    jitter_delay_ms: float
    lateness_ms: float
    tick_ms: float
    """How long the engine's last step took."""
    shed: int
    """Frames of input dropped since the call began, because the engine was too slow."""
    round_trip_ms: float | None = None
    concealed_ms: int = 0
    playout_delay_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class SessionDegraded(ServerEvent):
    type = "session.degraded"
    reason: str


@dataclass(frozen=True, slots=True)
class SessionEngineLost(ServerEvent):
    type = "session.engine_lost"


@dataclass(frozen=True, slots=True)
class SessionResumed(ServerEvent):
    type = "session.resumed"
    context: str = "kept"
    gap_ms: int = 0
    """How long the model stood still; 0 when the call went over to a new leg while the old one lived."""
    missed: int = 0
    """Events of the gap that were too many to keep, and are lost."""


@dataclass(frozen=True, slots=True)
class SessionEnding(ServerEvent):
    type = "session.ending"
    in_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class SessionEnded(ServerEvent):
    type = "session.ended"
    reason: str


@dataclass(frozen=True, slots=True)
class ErrorEvent(ServerEvent):
    type = "error"
    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A server event with its place in the conversation: from 1, without gaps, over all legs of a session.

    A client that resumes says which number it saw last; one that hears an event over two channels tells by it.
    """

    seq: int
    event: ServerEvent


def encode(*numbered: Numbered) -> str:
    """Compact JSON text of one message: an object for one event, an array for several of the same tick."""
    objects = [{**item.event.to_json(), "seq": item.seq} for item in numbered]
    return json.dumps(objects[0] if len(objects) == 1 else objects, ensure_ascii=False, separators=(",", ":"))


# ---- from the client -------------------------------------------------------------------------------------------------


class UnknownEvent(BadEvent):
    """A type that this version does not know: counted, ignored, never answered."""

    code = "unknown_event"


class ClientEvent(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class InputCommit(ClientEvent):
    type: Literal["input.commit"]


class ResponseCreate(ClientEvent):
    type: Literal["response.create"]


class ResponseCancel(ClientEvent):
    type: Literal["response.cancel"]
    id: str | None = Field(default=None, max_length=64)
    """A client that sends it over two channels gives both the same `id`: the second is ignored."""


class PlaybackAck(ClientEvent):
    type: Literal["playback.ack"]
    cursor: int = Field(ge=0, le=2**53)
    """Milliseconds of agent audio heard; monotone. Corrects ``played_ms``, never gates output."""


class InputAppend(ClientEvent):
    """Sockets only: a leg with a media path of its own refuses it."""

    type: Literal["input.append"]
    modality: str = Field(default="audio", max_length=32)
    data: str = ""


class Close(ClientEvent):
    type: Literal["close"]


_CLIENT_EVENTS: dict[str, type[ClientEvent]] = {
    "input.commit": InputCommit,
    "response.create": ResponseCreate,
    "response.cancel": ResponseCancel,
    "playback.ack": PlaybackAck,
    "input.append": InputAppend,
    "close": Close,
}


def decode(message: str | bytes) -> ClientEvent:
    """One client message.

    Raises: UnknownEvent for an unknown type, BadEvent for anything else that is not an event of this protocol.
    """
    size = len(message.encode(errors="replace")) if isinstance(message, str) else len(message)
    if size > MAX_MESSAGE_BYTES:
        raise BadEvent(f"message of {size} bytes is over the limit of {MAX_MESSAGE_BYTES}")
    try:
        value = json.loads(message)
    except (ValueError, RecursionError):
        raise BadEvent("message is not JSON", hint='send one object such as {"type":"response.cancel"}') from None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise BadEvent("message is not an object with a string `type`")
    model = _CLIENT_EVENTS.get(value["type"])
    if model is None:
        raise UnknownEvent(f"unknown event type {value['type'][:64]!r}")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "event"
        raise BadEvent(f"{value['type']}: {where}: {first['msg']}") from None
