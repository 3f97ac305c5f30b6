"""A page that is loaded again on a server with one slot: the slot is just closing, and is worth waiting for."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from rtc_server import config
from rtc_server.engine.echo import EchoStepper
from rtc_server.server import Server
from tests.test_server import OFFER

ROUNDS = 3

pytestmark = pytest.mark.timeout(60)


class Lingering(EchoStepper):
    """Takes most of a tick to forget a conversation."""

    def close(self, slot: int) -> None:
        time.sleep(0.06)
        super().close(slot)


@pytest.fixture(params=["off", "on"], ids=["engine in a thread", "engine in a process"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    flags = {"engine": f"{__name__}:Lingering", "slots": 1, "port": 0, "udp_port": 0, "drain_s": 0.1}
    server = Server(config.load({**flags, "engine_process": request.param}))
    await server.start()
    yield server
    await server.stop()


async def offer(http: aiohttp.ClientSession, server: Server) -> tuple[int, dict[str, str]]:
    async with http.post(f"{server.url}v1/sessions", json={"sdp": OFFER, "type": "offer"}) as response:
        return response.status, await response.json()


async def first_word(http: aiohttp.ClientSession, server: Server) -> bytes:
    """Of a conversation that is over when this returns."""
    async with http.ws_connect(f"{server.url}api/chat") as socket:
        return await socket.receive_bytes(timeout=5)


async def test_who_leaves_and_comes_again_at_once_gets_the_slot_over_either_door(server: Server) -> None:
    async with aiohttp.ClientSession() as http:
        for _ in range(ROUNDS):
            assert await first_word(http, server) == b"\0"
            status, body = await offer(http, server)
            assert status == 201, body
            async with http.delete(f"{server.url}v1/sessions/{body['id']}") as ended:
                assert ended.status == 204
        assert await first_word(http, server) == b"\0"
