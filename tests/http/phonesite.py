"""The HTTP API over a user agent whose network, ports, legs and engine are fakes; its time stands still."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp.test_utils import TestClient
from pydantic import SecretStr

from rtc_server.config import HttpSettings
from rtc_server.http.app import create_app
from rtc_server.http.auth import Gate
from rtc_server.http.calls import PhoneCalls
from rtc_server.http.info import Info
from rtc_server.http.page import Page
from rtc_server.http.sessions import Sessions
from rtc_server.transports.sip.trunk.trunks import Trunk
from rtc_server.transports.webrtc.connectivity import Connectivity
from rtc_server.transports.webrtc.turn import IceServers
from tests.http.conftest import FakeWebRtc, TestSite
from tests.transports.sip.call.fakes import TRUNK, World
from tests.transports.sip.call.phone import Phone, sdp

NUMBER = "+15550100"


@dataclass
class PhoneSite:
    client: TestClient[Any, Any]
    world: World
    phone: Phone
    """The one that is reached over the trunk."""

    async def post(self, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        response = await self.client.post(path, json=body)
        return response.status, await response.json()

    async def get(self, path: str) -> dict[str, Any]:
        response = await self.client.get(path)
        assert response.status == 200
        answer: dict[str, Any] = await response.json()
        return answer

    async def dial(self, **more: Any) -> dict[str, Any]:
        """A call that rings at the other end."""
        status, call = await self.post("/v1/calls", {"to": NUMBER, **more})
        assert status == 201, call
        await self.until(lambda: bool(self.phone.count("INVITE")))
        return call

    async def answered(self) -> dict[str, Any]:
        call = await self.dial()
        self.phone.answer(200, sdp())
        await self.world.settle()
        return call

    async def until(self, happens: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not happens():
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def phone_site(
    *, slots: int = 4, trunks: Sequence[Trunk] = (TRUNK,), api_key: str | None = None, on: bool = True, **http: Any
) -> AsyncIterator[PhoneSite]:
    world = World(slots=slots, trunks=trunks)
    await world.agent.start()
    house, gate = world.house, Gate(HttpSettings(api_key=SecretStr(api_key) if api_key else None, **http))
    servers, reach = IceServers(), Connectivity(ok=True, message="", addresses=())
    sessions = Sessions(house.admission, house.registry, FakeWebRtc(house), servers)  # type: ignore[arg-type]
    info = Info(house.engine, house.admission, lambda: reach, gate.needs_key, servers, telephony=on)
    calls = PhoneCalls(world.agent if on else None, house.clock, ping_every_s=0.01)
    client: TestClient[Any, Any] = TestClient(TestSite(create_app(gate, sessions, info, Page(), calls)))
    await client.start_server()
    try:
        yield PhoneSite(client, world, world.phone())
    finally:
        await client.close()
        await world.agent.close()
