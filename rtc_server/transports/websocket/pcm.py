"""The words of ``/v1/audio/duplex``: PCM in binary messages, JSON objects with a ``type`` in text messages. Sans-IO.

A client says ``open`` and how its audio looks, then sends audio; what it hears looks the same. There are two ways to be
told what else happens: a handful of plain words, or, with ``events``, the whole event protocol of `rtc_server.events`.
Either way ``ready`` says that the agent is live, and ``done`` that nothing more comes.

Telephone servers that stream calls to such an endpoint speak in words in capitals: ``MEDIA_XOFF`` and ``MEDIA_XON``
stop and resume our audio, the others change nothing.
"""

from __future__ import annotations

import base64
import enum
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rtc_server import events
from rtc_server.engine.stepper import FrameSpec, Sampling, SessionPrompt
from rtc_server.errors import BadEvent, BadRequest, RtcServerError
from rtc_server.events import Numbered
from rtc_server.media.pcmformat import PcmEncoder, SampleFormat
from rtc_server.session.leg import FloatFrame
from rtc_server.transports.websocket.closing import goodbye
from rtc_server.wrongfield import wrong_field

MAX_TEXT_CHARS = 512 * 1024
"""Of one text message: two seconds of the widest audio in base64, or a persona far beyond what an engine takes."""
OPEN_HINT = 'send {"type":"open"} with persona?, voice?, seed?, sampling?, rate?, format?, pace?, events?'

_WORD = re.compile(r"([A-Z][A-Z0-9_]*)(\s|$)")
_FORMATS = {"f32le": "f32", "s16le": "s16"}


# ---- from the client -------------------------------------------------------------------------------------------------


def _format(value: Any) -> Any:
    return _FORMATS.get(value, value) if isinstance(value, str) else value


def _blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


Text = Annotated[str | None, BeforeValidator(_blank_is_none)]
Temperature = Annotated[float | None, Field(ge=0, le=10)]
TopK = Annotated[int | None, Field(ge=0, le=100_000)]


class _Words(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class OpenSampling(_Words):
    """A name that is not known would change nothing, unnoticed: it is refused, unlike other fields."""

    model_config = ConfigDict(extra="forbid")

    audio_temperature: Temperature = None
    audio_top_k: TopK = None
    text_temperature: Temperature = None
    text_top_k: TopK = None


class Open(_Words):
    """What a conversation starts from, and how its audio looks, both ways. Every field has a default."""

    type: Literal["open"] = "open"
    persona: Text = None
    voice: Text = None
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    sampling: OpenSampling | None = None
    rate: Literal[8000, 16000, 24000, 48000] = 24000
    """Hz"""
    format: Annotated[SampleFormat, BeforeValidator(_format)] = "f32"
    """Little-endian: float32 in [-1, 1], or int16."""
    channels: Literal[1] = 1
    """Two would play at half their speed."""
    pace: Literal["input", "realtime"] = "input"
    events: bool = False
    resume: str | None = Field(default=None, max_length=256, repr=False)
    """Token of the conversation that is to go on over this socket. It keeps its own persona, voice and the like."""
    last_event: int | None = Field(default=None, ge=0, lt=2**53)
    """`seq` of the last event that the caller knows of."""

    def prompt(self, spec: FrameSpec) -> SessionPrompt:
        """What an engine is asked for; whether it has that voice, and room for the persona, is not looked at."""
        sampling = Sampling(**self.sampling.model_dump()) if self.sampling else Sampling()
        voice = spec.voice_wanted(self.voice)
        return SessionPrompt(persona=self.persona, voice=voice, seed=self.seed, sampling=sampling)


@dataclass(frozen=True, slots=True)
class Append:
    """Audio that came as text."""

    audio: bytes
    """In the format that `Open` named."""


class Flow(enum.Enum):
    """What a client wants of our audio."""

    HOLD = "MEDIA_XOFF"
    GO_ON = "MEDIA_XON"


class Finish:
    """``close``: no more audio comes; the rest is to be answered first."""


@dataclass(frozen=True, slots=True)
class Other:
    """An event for the session, which knows the others."""

    text: str


class Ignored:
    """A word in capitals that changes nothing."""


Message = Open | Append | Flow | Finish | Other | Ignored


def read(text: str) -> Message:
    """One text message.

    Raises: BadRequest for an ``open`` that asks for what cannot be had; BadEvent for anything else that is malformed.
    """
    if len(text) > MAX_TEXT_CHARS:
        hint = "send audio in binary messages, or less of it at once"
        raise BadEvent(f"a text message of {len(text)} characters is over the limit of {MAX_TEXT_CHARS}", hint=hint)
    if word := _WORD.match(text):
        return next((flow for flow in Flow if flow.value == word[1]), Ignored())
    value = _object(text)
    match value["type"]:
        case "open":
            return _validated(Open, value, BadRequest, OPEN_HINT)
        case "input.append":
            return _append(_validated(events.InputAppend, value, BadEvent))
        case "close":
            return Finish()
    return Other(text)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise BadEvent("the message is not JSON", hint='send one object such as {"type":"open"}') from None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise BadEvent("the message is not an object with a string `type`", hint='say {"type":"open"} first')
    return value


_Model = TypeVar("_Model", bound=BaseModel)


def _validated(model: type[_Model], value: dict[str, Any], error: type[RtcServerError], hint: str = "") -> _Model:
    try:
        return model.model_validate(value)
    except ValidationError as invalid:
        known = f"sampling takes {', '.join(OpenSampling.model_fields)}"
        raise wrong_field(error, invalid, whole=value["type"], known=known, hint=hint) from None


def _append(event: events.InputAppend) -> Append:
    if event.modality != "audio":
        hint = "this engine hears audio"
        raise BadEvent(f"unsupported input modality: {event.modality}", hint=hint)
    try:
        return Append(base64.b64decode(event.data, validate=True))
    except ValueError:
        raise BadEvent("input.append: data is not base64", hint="encode the samples, RFC 4648 section 4") from None


# ---- from the server -------------------------------------------------------------------------------------------------


class PcmDialect:
    """Our audio as PCM, our events as JSON: all of them, or plain words. A `transports.websocket.wire.Dialect`."""

    def __init__(self, encoder: PcmEncoder, has_events: bool) -> None:
        self.has_events = has_events
        self._encoder = encoder
        self._is_ready = False

    def audio(self, pcm: FloatFrame) -> bytes:
        return self._encoder.encode(pcm)

    def event(self, numbered: Numbered) -> Sequence[str]:
        event = numbered.event
        if self.has_events:
            told = {**event.to_json(), "seq": numbered.seq}
            if isinstance(event, events.ErrorEvent):
                told["error"] = event.message
            messages = [told]
        else:
            messages = self._in_plain_words(event)
        if isinstance(event, events.SessionReady | events.SessionResumed) and not self._is_ready:
            self._is_ready = True  # who takes a live conversation over hears of no other beginning
            messages.append({"type": "ready"})
        elif isinstance(event, events.SessionEnded) and event.reason == "client_closed":
            messages.append({"type": "done"})
        return [_json(message) for message in messages]

    @staticmethod
    def _in_plain_words(event: events.ServerEvent) -> list[dict[str, Any]]:
        match event:
            case events.ResponseDelta(data=text):
                return [{"type": "text", "text": text}]
            case events.InputDropped(dropped_ms=dropped_ms):
                return [{"type": "dropped", "dropped_ms": dropped_ms}]
            case events.ErrorEvent(code=code, message=message, hint=hint):
                return [_error(code, message, hint)]
            case events.SessionEnded(reason=reason) if reason != "client_closed":
                return [_error(reason, goodbye(reason).sentence)]
        return []


def refusal(error: RtcServerError) -> str:
    """What a client is told whose message, or whose call, cannot be had. The same shape in both ways of being told."""
    return _json(_error(error.code, error.message, error.hint))


def done() -> str:
    """What a client is told last that closes without having had a conversation."""
    return _json({"type": "done"})


def _error(code: str, message: str, hint: str = "") -> dict[str, Any]:
    return {"type": "error", "error": message, "code": code, "message": message, "hint": hint}


def _json(message: dict[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))
