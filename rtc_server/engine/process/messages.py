"""What the server and its engine process say to each other.

::

    server                               engine process
    Launch    which engine, how     -->  builds it on its engine thread, which may take minutes
                                    <--  Started, or Failed and the end
    Reserve   a prompt              -->
                                    <--  Leased, or Refused
    Exchange  all leases of a tick  -->  with the sound of all rows
                                    <--  Ticked with the sound of the live rows, or Refused
    SampleVoice  how one sounds     -->
                                    <--  VoiceSampled with its frames, none if there is no sample, or Refused
    Release, Drain, Stop            -->  nobody answers
                                    <--  Heartbeat, four times a second

Requests carry an `id`, which the answer repeats. Answers come in the order in which they are ready. Times are seconds
of the system's monotonic clock, which all processes share: they stay right however long a message is on its way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from rtc_server import errors
from rtc_server.engine.client import Capacity, Lease, SlotOutput, SlotStatus
from rtc_server.engine.process.telemetry import Samples
from rtc_server.engine.process.wire import Frame, WireError, encode_frame
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FrameSpec, Heard, SessionPrompt
from rtc_server.errors import EngineError, RtcServerError

# ---- parts -----------------------------------------------------------------------------------------------------------

_ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, RtcServerError) and kind.__module__ == errors.__name__
}


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An error of `rtc_server.errors`, by the name of its class. Others become an EngineError that quotes them."""

    name: str
    message: str
    hint: str = ""

    @classmethod
    def of(cls, error: BaseException) -> ErrorReport:
        for kind in type(error).__mro__:
            if isinstance(error, RtcServerError) and _ERRORS.get(kind.__name__) is kind:
                return cls(kind.__name__, _speakable(error.message), _speakable(error.hint))
        return cls(EngineError.__name__, _speakable(f"{type(error).__name__}: {error}"))

    def to_error(self) -> RtcServerError:
        return _ERRORS.get(self.name, EngineError)(self.message, hint=self.hint)


@dataclass(frozen=True, slots=True)
class OutputReport:
    """A `SlotOutput` without its sound, which is a row of the payload if the slot is live."""

    status: SlotStatus
    text: str | None = None
    heard: tuple[Heard, ...] = ()
    prefill: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, output: SlotOutput) -> OutputReport:
        """Made fit for JSON, whatever numbers and characters the engine used: one slot must not cost the tick."""
        heard = tuple(
            Heard(_speakable(item.text), int(item.start_frame), int(item.end_frame), bool(item.final))
            for item in output.heard
        )
        done, total = output.prefill
        text = None if output.text is None else _speakable(output.text)
        return cls(output.status, text, heard, (int(done), int(total)))


def _speakable(text: str) -> str:
    """Without lone surrogates, which UTF-8 has no bytes for."""
    return text.encode(errors="replace").decode()


# ---- to the engine process -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launch:
    engine: str
    """A name that `registry.create` takes."""
    options: EngineOptions
    engine_id: str
    lost_after_s: float
    kind: Literal["launch"] = "launch"


@dataclass(frozen=True, slots=True)
class Reserve:
    id: int
    prompt: SessionPrompt
    kind: Literal["reserve"] = "reserve"


@dataclass(frozen=True, slots=True)
class Exchange:
    """The payload has one row for each lease."""

    id: int
    leases: tuple[Lease, ...]
    live: tuple[int, ...]
    """Each a `Live`."""
    seq: int
    kind: Literal["exchange"] = "exchange"


@dataclass(frozen=True, slots=True)
class SampleVoice:
    id: int
    voice: str
    kind: Literal["sample_voice"] = "sample_voice"


@dataclass(frozen=True, slots=True)
class Release:
    lease: Lease
    kind: Literal["release"] = "release"


@dataclass(frozen=True, slots=True)
class Drain:
    kind: Literal["drain"] = "drain"


@dataclass(frozen=True, slots=True)
class Stop:
    kind: Literal["stop"] = "stop"


# ---- from the engine process -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    spec: FrameSpec
    capacity: Capacity
    kind: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine could not be built."""

    error: ErrorReport
    kind: Literal["failed"] = "failed"


@dataclass(frozen=True, slots=True)
class Leased:
    id: int
    lease: Lease
    capacity: Capacity
    kind: Literal["leased"] = "leased"


@dataclass(frozen=True, slots=True)
class Ticked:
    """A `TickResult`. The payload has one row for each live output, in their order."""

    id: int
    tick: int
    next_tick_at_s: float
    step_s: float
    shed: int
    outputs: tuple[OutputReport, ...]
    capacity: Capacity
    kind: Literal["ticked"] = "ticked"

    @property
    def rows(self) -> int:
        return sum(output.status is SlotStatus.LIVE for output in self.outputs)


@dataclass(frozen=True, slots=True)
class VoiceSampled:
    """The payload has so many rows."""

    id: int
    rows: int
    capacity: Capacity
    kind: Literal["voice_sampled"] = "voice_sampled"


@dataclass(frozen=True, slots=True)
class Refused:
    """The request raised."""

    id: int
    error: ErrorReport
    capacity: Capacity
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    capacity: Capacity
    metrics: Samples = field(default_factory=dict)
    kind: Literal["heartbeat"] = "heartbeat"


# ---- as frames -------------------------------------------------------------------------------------------------------

ToEngine = Launch | Reserve | Exchange | SampleVoice | Release | Drain | Stop
FromEngine = Started | Failed | Leased | Ticked | VoiceSampled | Refused | Heartbeat

TO_ENGINE: TypeAdapter[ToEngine] = TypeAdapter(Annotated[ToEngine, Field(discriminator="kind")])
FROM_ENGINE: TypeAdapter[FromEngine] = TypeAdapter(Annotated[FromEngine, Field(discriminator="kind")])

Message = TypeVar("Message", ToEngine, FromEngine)


def encode(adapter: TypeAdapter[Message], message: Message, payload: bytes = b"") -> bytes:
    """Raises: WireError for what JSON or the limits of a frame cannot hold."""
    try:
        header = adapter.dump_json(message, warnings=False)
    except ValueError as error:
        raise WireError(f"{message.kind} cannot be sent: {error}") from None
    return encode_frame(Frame(header, payload))


def decode(adapter: TypeAdapter[Message], frame: Frame) -> Message:
    """Raises: WireError for anything but one message of the kind that `adapter` knows."""
    try:
        return adapter.validate_json(frame.header, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise WireError(f"no message of ours: {where}: {first['msg']}") from None
