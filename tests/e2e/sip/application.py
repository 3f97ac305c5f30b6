"""An application that is asked about each incoming call: an HTTP server that believes only what is signed."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import time
from asyncio import Event
from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiohttp import web

from tests.e2e.sip.ports import free_ports

SIGNATURE_IS_GOOD_FOR_S = 60


class Application:
    """What it says stands in `answer`; None: nothing at all.

    Args:
        secret: what it knows of the one that questions are signed with.
    """

    def __init__(self, port: int, secret: str) -> None:
        self.answer: Mapping[str, Any] | bytes | None = {"action": "accept"}
        self.status = 200
        self.asked: list[dict[str, Any]] = []
        self.not_believed = 0
        self.was_asked = Event()
        self.url = f"http://127.0.0.1:{port}/calls"
        self._secret = secret.encode()
        self._ending = Event()

    async def decide(self, request: web.Request) -> web.Response:
        body = await request.read()
        if not self._is_signed(request.headers.get("X-RTC-Signature", ""), body):
            self.not_believed += 1
            return web.Response(status=401)
        self.asked.append(json.loads(body))
        self.was_asked.set()
        if self.answer is None:
            await self._ending.wait()
        if isinstance(self.answer, Mapping):
            return web.json_response(self.answer, status=self.status)
        return web.Response(body=self.answer, status=self.status)

    def end(self) -> None:
        """Let go of the questions that have no answer."""
        self._ending.set()

    def _is_signed(self, signature: str, body: bytes) -> bool:
        """``t=SECONDS,v1=HEX``, as the documentation tells applications."""
        parts = dict(part.partition("=")[::2] for part in signature.split(","))
        said_s, given = parts.get("t", ""), parts.get("v1", "")
        expected = hmac.new(self._secret, said_s.encode() + b"." + body, hashlib.sha256).hexdigest()
        in_time = said_s.isdigit() and abs(time.time() - int(said_s)) <= SIGNATURE_IS_GOOD_FOR_S
        return in_time and hmac.compare_digest(expected, given)


@contextlib.asynccontextmanager
async def running_application(secret: str) -> AsyncIterator[Application]:
    port = free_ports(2)
    application = Application(port, secret)
    site = web.Application()
    site.router.add_post("/calls", application.decide)
    runner = web.AppRunner(site, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield application
    finally:
        application.end()
        await runner.cleanup()
