"""The events of calls over a WebSocket: one JSON object a message, for an application that only listens.

The feed of the call bounds what a slow reader may leave unread. A reader that is gone, or takes nothing any more, is
noticed by the pings that it does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from rtc_server.errors import RtcServerError
from rtc_server.http.sockets import AiohttpWire, serve
from rtc_server.transports.sip.call.feed import FeedEvent
from rtc_server.transports.websocket.closing import NORMAL, goodbye
from rtc_server.transports.websocket.wire import ConnectionLost

PING_EVERY_S = 10.0
MAX_UNANSWERED = 3
"""Pings in a row. Whoever answers none of them is gone, or does not read."""


async def serve_events(
    request: web.Request,
    events: AsyncIterator[FeedEvent],
    told: Callable[[FeedEvent], FeedEvent] = lambda event: event,
    ping_every_s: float = PING_EVERY_S,
) -> web.WebSocketResponse:
    """Upgrade a request and send events until there are no more, or nobody listens.

    Args:
        told: what the application is told of an event.

    Raises: BadRequest, when the request cannot be upgraded.
    """

    async def converse(wire: AiohttpWire) -> None:
        stream = EventStream(wire, events, told, ping_every_s)
        stream.start()
        await wire.listen(stream, stream.hear)

    return await serve(request, _words, converse)


class EventStream:
    """A `sockets.Listener` that sends a feed. Owns two tasks: one sends, the other asks whether anybody is there."""

    def __init__(
        self,
        wire: AiohttpWire,
        events: AsyncIterator[FeedEvent],
        told: Callable[[FeedEvent], FeedEvent],
        ping_every_s: float,
    ) -> None:
        self._wire = wire
        self._events = events
        self._told = told
        self._ping_every_s = ping_every_s
        self._unanswered = 0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._send_all(), name="call-events"),
            loop.create_task(self._watch(), name="call-events-ping"),
        ]

    async def hear(self, message: str | bytes) -> None:
        """Nothing that a listener says changes anything."""

    # ---- sockets.Listener --------------------------------------------------------------------------------------------

    def alive(self) -> None:
        self._unanswered = 0

    def pong(self, payload: bytes) -> None:
        """`alive` has been told of it."""

    def lost(self, reason: str = "peer_closed") -> None:
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- tasks -------------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        with contextlib.suppress(ConnectionLost):
            async for event in self._events:
                await self._wire.send(json.dumps(self._told(event)))
        await self._wire.close(NORMAL, "the call has ended")

    async def _watch(self) -> None:
        while self._unanswered < MAX_UNANSWERED:
            self._unanswered += 1
            with contextlib.suppress(ConnectionLost, TimeoutError):
                async with asyncio.timeout(self._ping_every_s):
                    await self._wire.ping(b"")
            await asyncio.sleep(self._ping_every_s)
        await self._wire.close(*goodbye("peer_silent"))


def _words(error: RtcServerError) -> str:
    return json.dumps({"type": "error", **error.to_json()})
