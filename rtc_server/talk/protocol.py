"""What both of the sockets come to: a caller's audio goes out, and this comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from rtc_server.media.frames import FloatSamples


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller wants of the agent; None: what the server has."""

    persona: str | None = None
    voice: str | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """The agent listens: from now on audio counts."""


@dataclass(frozen=True, slots=True)
class Sound:
    """The agent's voice."""

    pcm: FloatSamples
    """[n] samples at 24 kHz."""


@dataclass(frozen=True, slots=True)
class Words:
    """A piece of what the agent says, spaces included."""

    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence of the server's for a person: an error, or something that was lost."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """All that was sent has been answered."""


Heard = Ready | Sound | Words | Remark | Done
Message = str | bytes
"""A text message, or a binary one."""


class CallProtocol(Protocol):
    """The caller's side of one socket. Sans-IO; one instance a call."""

    path: ClassVar[str]
    """Where servers have it."""

    @property
    def query(self) -> dict[str, str]:
        """Of the upgrade request."""

    def opening(self) -> Sequence[Message]:
        """What to send first."""

    def audio(self, pcm: FloatSamples) -> bytes:
        """The next frame of the caller's voice, [1920] samples at 24 kHz."""

    def closing(self) -> Sequence[Message]:
        """What to send last, to which the server answers `Done`; nothing: closing the socket says it all."""

    def receive(self, message: Message) -> Sequence[Heard]:
        """Never raises: what this side does not know is nothing."""


@dataclass(frozen=True, slots=True)
class Farewell:
    """How the socket was closed by the server."""

    code: int | None
    """RFC 6455 section 7.4; None: the connection broke, without a word."""
    reason: str = field(default="")
