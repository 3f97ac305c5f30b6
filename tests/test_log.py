from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import asyncio
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from rtc_server import log

async def upgrade(request):
    socket = web.WebSocketResponse()
    assert socket.can_prepare(request)
    await socket.prepare(request)
    return socket

async def main():
    log.configure()
    app = web.Application()
    app.add_routes([web.get("/", upgrade)])
    async with TestServer(app) as server, ClientSession() as http:
        async with http.ws_connect(server.make_url("/"), protocols=["realtime", "api-key.sesame"]) as socket:
            await socket.receive()

asyncio.run(main())
"""


def test_a_key_that_a_client_offers_as_a_subprotocol_is_not_logged() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=30)
    assert "sesame" not in run.stderr + run.stdout
