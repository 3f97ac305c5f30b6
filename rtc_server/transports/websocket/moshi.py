"""The words of ``/api/chat``, the protocol of Moshi's and PersonaPlex's clients. Sans-IO.

Every message is binary; its first byte says what the rest is::

    00 handshake   from the server, once the conversation is live; clients send no audio before it, but some do
    01 audio       Ogg-Opus (RFC 7845): one stream in each direction, cut anywhere
    02 text        from the server: a piece of what the agent says, UTF-8
    03 control, 04 metadata, 06 ping     from clients; they change nothing here
    05 error       from the server: a sentence for a person, UTF-8

What a conversation starts from stands in the query of the upgrade request.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rtc_server import events
from rtc_server.engine.stepper import FrameSpec, Sampling, SessionPrompt
from rtc_server.errors import BadRequest, RtcServerError, UnknownVoice
from rtc_server.events import Numbered
from rtc_server.media.oggopus import OggOpusWriter
from rtc_server.session.leg import FloatFrame
from rtc_server.transports.websocket.closing import goodbye


class Kind(enum.IntEnum):
    HANDSHAKE = 0
    AUDIO = 1
    TEXT = 2
    CONTROL = 3
    METADATA = 4
    ERROR = 5
    PING = 6


def message(kind: Kind, payload: bytes = b"") -> bytes:
    return bytes((kind,)) + payload


def refusal(error: RtcServerError) -> bytes:
    """What a client is told whose message, or whose call, cannot be had."""
    return _sentence(str(error))


def _sentence(text: str) -> bytes:
    return message(Kind.ERROR, text.encode(errors="replace"))


# ---- from the client -------------------------------------------------------------------------------------------------


def split(data: str | bytes) -> tuple[Kind | None, bytes]:
    """Kind and payload of a client's message. The kind is None where this version knows none: an unknown first byte, an
    empty message, a text message."""
    if isinstance(data, str) or not data or data[0] > max(Kind):
        return None, b""
    return Kind(data[0]), data[1:]


@dataclass(frozen=True, slots=True)
class _Number:
    """What a parameter may be: a number from `least` to `most`."""

    least: int
    most: int
    whole: bool = True

    def read(self, name: str, text: str) -> int | float | None:
        """None where it is empty. Raises: BadRequest."""
        if not text.strip():
            return None
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            value = float("nan")
        if not self.least <= value <= self.most:
            sort = "a whole number" if self.whole else "a number"
            hint = f"{name} is {sort} from {self.least} to {self.most}"
            raise BadRequest(f"{name}={text[:40]!r} is not possible", hint=hint)
        return value


_SEED = _Number(-1, 2**63 - 1)
"""-1 is how PersonaPlex's clients say that they want none."""
_TEMPERATURE = _Number(0, 10, whole=False)
_TOP_K = _Number(0, 100_000)

_SPELLINGS = {"text_top_k": "text_topk", "audio_top_k": "audio_topk"}
_HONOURED = frozenset(
    {"text_prompt", "voice_prompt", "seed", "text_temperature", "text_topk", "audio_temperature", "audio_topk"}
)
"""All others are ignored, since they say nothing to this server: pad_mult, repetition_penalty, text_seed, email, ..."""


def prompt_of(query: Iterable[tuple[str, str]], spec: FrameSpec) -> SessionPrompt:
    """What the query of an upgrade request asks for. Nothing is required; what is empty is as if it were not there.

    Raises: BadRequest, UnknownVoice; the message begins with the parameter's name.
    """
    given: dict[str, str] = {}
    for spelling, value in query:
        name = _SPELLINGS.get(spelling, spelling)
        if name in _HONOURED and name in given:
            raise BadRequest(f"{name} is given twice", hint="give each parameter once")
        given[name] = value

    def number(name: str, kind: _Number) -> int | float | None:
        return kind.read(name, given.get(name, ""))

    def whole(name: str, kind: _Number) -> int | None:
        value = number(name, kind)
        return None if value is None else int(value)

    seed = whole("seed", _SEED)
    return SessionPrompt(
        persona=_persona(given.get("text_prompt", ""), spec),
        voice=_voice(given.get("voice_prompt", ""), spec),
        seed=None if seed == -1 else seed,
        sampling=Sampling(
            audio_temperature=number("audio_temperature", _TEMPERATURE),
            audio_top_k=whole("audio_topk", _TOP_K),
            text_temperature=number("text_temperature", _TEMPERATURE),
            text_top_k=whole("text_topk", _TOP_K),
        ),
    )


def _persona(text: str, spec: FrameSpec) -> str | None:
    persona = text.strip()
    if len(persona) > spec.max_persona_chars:
        raise BadRequest(
            f"text_prompt has {len(persona)} characters", hint=f"at most {spec.max_persona_chars} are possible"
        )
    return persona or None


def _voice(text: str, spec: FrameSpec) -> str | None:
    name = spec.voice_wanted(text.strip())
    if name is None:
        return None
    voice = spec.voice_named(name)
    if voice is None:
        hint = f"the engine {spec.name} has: {', '.join(spec.voices)}"
        raise UnknownVoice(f"voice_prompt={name[:64]!r} is unknown", hint=hint)
    return voice


# ---- from the server -------------------------------------------------------------------------------------------------


class MoshiDialect:
    """The agent's voice, its words, and what went wrong. A `transports.websocket.wire.Dialect`."""

    has_events = False

    def __init__(self) -> None:
        self._voice = OggOpusWriter()

    def audio(self, pcm: FloatFrame) -> bytes:
        return message(Kind.AUDIO, self._voice.encode(pcm))

    def event(self, numbered: Numbered) -> Sequence[bytes]:
        match numbered.event:
            case events.SessionReady():
                return [message(Kind.HANDSHAKE)]
            case events.ResponseDelta(data=text):
                return [message(Kind.TEXT, text.encode(errors="replace"))]
            case events.InputDropped(dropped_ms=dropped_ms):
                return [_sentence(f"{dropped_ms} ms of your audio were dropped: it came faster than time passes")]
            case events.SessionEnding(in_s=in_s, reason=reason):
                return [_sentence(f"the conversation ends in {in_s:.0f} s: {goodbye(reason).sentence}")]
            case events.SessionEnded(reason=reason) if reason not in ("client_closed", "peer_closed"):
                return [_sentence(goodbye(reason).sentence)]
            case events.ErrorEvent(message=text, hint=hint):
                return [_sentence(f"{text}; {hint}" if hint else text)]
        return []
