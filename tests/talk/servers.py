"""Servers as they are met on the other end: each on a loop and a thread of its own, so that a whole command can run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

Handler = Callable[[web.WebSocketResponse, "Site"], Awaitable[None]]


@dataclass
class Site:
    """A server, and what it was asked and told."""

    url: str = ""
    requests: list[web.Request] = field(default_factory=list)
    heard: list[WSMessage] = field(default_factory=list)
    closed_with: int | None = None
    is_live: threading.Event = field(default_factory=threading.Event)
    """Set by handlers once a conversation runs."""

    @property
    def binary(self) -> list[bytes]:
        return [message.data for message in self.heard if message.type is WSMsgType.BINARY]

    @property
    def texts(self) -> list[dict[str, Any]]:
        return [message.json() for message in self.heard if message.type is WSMsgType.TEXT]

    async def listen(self, socket: web.WebSocketResponse) -> WSMessage:
        """The next message of the caller's."""
        message = await socket.receive()
        self.heard.append(message)
        return message


@contextmanager
def serving(sockets: Mapping[str, Handler], status: int | None = None) -> Iterator[Site]:
    """A server with these sockets; `status` is its answer to every request for one."""
    site, loop, running = Site(), asyncio.new_event_loop(), threading.Event()

    def route(path: str, handler: Handler) -> web.RouteDef:
        async def answer(request: web.Request) -> web.StreamResponse:
            site.requests.append(request)
            if status is not None:
                return web.Response(status=status)
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await handler(socket, site)
            site.closed_with = socket.close_code
            return socket

        return web.get(path, answer)

    async def start() -> web.AppRunner:
        app = web.Application()
        app.add_routes([route(path, handler) for path, handler in sockets.items()])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def run() -> None:
        runner = loop.run_until_complete(start())
        running.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = threading.Thread(target=run, name="fake-server")
    thread.start()
    try:
        assert running.wait(10)
        yield site
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def moshi_echo(socket: web.WebSocketResponse, site: Site) -> None:
    """Sends each message of audio back, and a word with it."""
    await socket.send_bytes(b"\x00")
    site.is_live.set()
    while (message := await site.listen(socket)).type is WSMsgType.BINARY:
        await socket.send_bytes(message.data)
        await socket.send_bytes(b"\x02 word")


async def pcm_echo(socket: web.WebSocketResponse, site: Site) -> None:
    """The same in PCM; what is pending at the end is answered after a while."""
    await site.listen(socket)
    await socket.send_json({"type": "ready"})
    site.is_live.set()
    held = b""
    while (message := await site.listen(socket)).type is WSMsgType.BINARY:
        if held:
            await socket.send_bytes(held)
            await socket.send_json({"type": "text", "text": " word"})
        held = message.data
    if message.type is WSMsgType.TEXT:
        await asyncio.sleep(0.05)
        await socket.send_bytes(held)
        await socket.send_json({"type": "done"})
        await socket.close()


def refusing(code: int, reason: str, first: bytes = b"") -> Handler:
    """Closes before the agent is ready, after a last word."""

    async def refuse(socket: web.WebSocketResponse, _site: Site) -> None:
        if first:
            await socket.send_bytes(first)
        await socket.close(code=code, message=reason.encode())

    return refuse


def breaking_off(code: int | None, reason: str = "", first: bytes = b"") -> Handler:
    """Goes live, hears one frame, and ends the call; None: without a word."""

    async def break_off(socket: web.WebSocketResponse, site: Site) -> None:
        await socket.send_bytes(b"\x00")
        await site.listen(socket)
        if first:
            await socket.send_bytes(first)
        if code is None:
            assert socket._req is not None and socket._req.transport is not None
            socket._req.transport.abort()
        else:
            await socket.close(code=WSCloseCode(code), message=reason.encode())

    return break_off
