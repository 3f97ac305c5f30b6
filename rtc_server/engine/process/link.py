"""One end of the socket between the server and its engine process, on an event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Generic, TypeVar

from pydantic import TypeAdapter

from rtc_server.engine.process.messages import FromEngine, ToEngine, decode, encode
from rtc_server.engine.process.wire import FrameDecoder, WireError
from rtc_server.log import get_logger

log = get_logger(__name__)

MAX_BACKLOG_BYTES = 8 << 20
"""So much may wait for a reader that does not read; what comes then is not sent at all."""

Inbound = TypeVar("Inbound", ToEngine, FromEngine)
Outbound = TypeVar("Outbound", ToEngine, FromEngine)


class Link(asyncio.Protocol, Generic[Inbound, Outbound]):
    """Messages in and out. What is malformed closes it.

    Args:
        inbound, outbound: what may come and what may be sent.
        receive: gets each message and its payload, on the event loop. Raises WireError for one that makes no sense.
        lost: called once, when the link is gone, for whatever reason.
    """

    def __init__(
        self,
        inbound: TypeAdapter[Inbound],
        outbound: TypeAdapter[Outbound],
        receive: Callable[[Inbound, bytes], None],
        lost: Callable[[], None],
    ) -> None:
        self._inbound: TypeAdapter[Inbound] = inbound
        self._outbound: TypeAdapter[Outbound] = outbound
        self._receive: Callable[[Inbound, bytes], None] = receive
        self._lost = lost
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None

    async def open(self, own_end: socket.socket) -> None:
        """Take over `own_end` of a socket pair."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=own_end)

    def send(self, message: Outbound, payload: bytes = b"") -> bool:
        """Never waits. False if the message was dropped, because the link is closed or the other side does not read.

        Raises: WireError for a message that cannot be sent at all.
        """
        frame = encode(self._outbound, message, payload)
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if transport.get_write_buffer_size() + len(frame) > MAX_BACKLOG_BYTES:
            log.warning("other side does not read, message dropped", kind=message.kind)
            return False
        transport.write(frame)
        return True

    def close(self) -> None:
        """After all that was sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio.Protocol --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                self._receive(decode(self._inbound, frame), frame.payload)
        except WireError as error:
            log.error("engine socket closed, since what came over it is malformed", reason=error.message)
            self.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._lost()
