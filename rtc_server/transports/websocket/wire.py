"""The two sides of a leg over a WebSocket: the socket, and the words of the protocol that is spoken over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rtc_server.events import Numbered
from rtc_server.session.leg import FloatFrame


class ConnectionLost(Exception):
    """The peer is gone: nothing more can be sent."""


class Wire(Protocol):
    """A WebSocket (RFC 6455), as far as a leg needs it: what leaves. Event loop's thread; one call at a time, but
    `close` may come at any time. Every call may be cancelled."""

    async def send(self, message: str | bytes) -> None:
        """One text or binary message. Returns when the socket has taken it. Raises: ConnectionLost."""

    async def ping(self, payload: bytes) -> None:
        """A ping of at most 125 bytes (section 5.5.2). Raises: ConnectionLost."""

    async def close(self, code: int, reason: str) -> None:
        """Close with a code (section 7.4) and as much of `reason` as a close frame takes: 123 bytes of UTF-8. Returns
        when the socket is closed. May be called twice."""


class Dialect(Protocol):
    """How one protocol says things. Sans-IO; one a leg."""

    has_events: bool
    """The caller gets the events of `rtc_server.events`, and with them what it needs to come back after a loss."""

    def audio(self, pcm: FloatFrame) -> str | bytes:
        """The message with this frame of the agent's voice. Called in order, and only for frames that are sent."""

    def event(self, numbered: Numbered) -> Sequence[str | bytes]:
        """The messages that tell this event, none where the protocol has no word for it."""
