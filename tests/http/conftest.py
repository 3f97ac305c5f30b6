from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pydantic import SecretStr

from rtc_server.config import HttpSettings
from rtc_server.errors import BadOffer, UnsupportedOffer
from rtc_server.http.app import create_app
from rtc_server.http.auth import Gate
from rtc_server.http.chat import Chat
from rtc_server.http.info import Info
from rtc_server.http.page import Page
from rtc_server.http.sessions import Sessions
from rtc_server.http.voicesamples import VoiceSamples
from rtc_server.session.attachment import Attachment
from rtc_server.transports.webrtc.connectivity import Connectivity
from rtc_server.transports.webrtc.turn import IceServers
from tests.session.conftest import House
from tests.session.fakes import FakeClock, FakeEngine, FakeLeg

KEY = "0123456789abcdef"


def answer_to(offer_sdp: str) -> str:
    """One that has other credentials for each offer that has others."""
    return "answer to " + offer_sdp.replace("a=ice-ufrag:", "a=ice-ufrag:our-")


class FakeWebRtcLeg(FakeLeg):
    """Answers later offers; refuses those that say `refuse`."""

    kind = "webrtc"
    id = "fake"

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.offers: list[str] = []
        """Those that it answered."""

    async def renegotiate(self, offer_sdp: str) -> str:
        if "refuse" in offer_sdp:
            raise UnsupportedOffer("no ICE restart yet")
        self.offers.append(offer_sdp)
        return answer_to(offer_sdp)


@dataclass
class FakeWebRtc:
    house: House
    legs: list[FakeWebRtcLeg] = field(default_factory=list)

    async def create(self, offer_sdp: str, handler: Attachment) -> tuple[FakeWebRtcLeg, str]:
        if "bad" in offer_sdp:
            raise BadOffer("there is no audio section")
        if "defect" in offer_sdp:
            raise RuntimeError("a defect of ours")
        leg = FakeWebRtcLeg(self.house.clock)
        leg.handler = handler
        self.legs.append(leg)
        return leg, await leg.renegotiate(offer_sdp)


class TestSite(TestServer):
    """Lets a request go on whose client is gone, as our own server does."""

    __test__ = False

    async def _make_runner(self, **kwargs: Any) -> web.BaseRunner[Any]:
        return await super()._make_runner(**{**kwargs, "handler_cancellation": False})


@dataclass
class Site:
    client: TestClient[Any, Any]
    house: House
    webrtc: FakeWebRtc


MakeSite = Callable[..., Awaitable[Site]]


@pytest.fixture
async def make_site() -> AsyncIterator[MakeSite]:
    clients: list[TestClient[Any, Any]] = []

    async def make(
        api_key: str | None = None, slots: int = 2, ice_servers: IceServers | None = None, **http: Any
    ) -> Site:
        house = House(engine=FakeEngine(slots=slots))
        settings = HttpSettings(api_key=SecretStr(api_key) if api_key else None, **http)
        webrtc, gate = FakeWebRtc(house), Gate(settings)
        reach = Connectivity(ok=True, message="", addresses=("192.0.2.1",))
        servers = ice_servers or IceServers()
        info = Info(house.engine, house.admission, lambda: reach, gate.needs_key, servers)
        sessions = Sessions(house.admission, house.registry, webrtc, servers)  # type: ignore[arg-type]
        chat = Chat(house.admission, house.clock)
        app = create_app(gate, sessions, info, Page(), VoiceSamples(house.engine), chat)
        client: TestClient[Any, Any] = TestClient(TestSite(app))
        await client.start_server()
        clients.append(client)
        return Site(client, house, webrtc)

    yield make
    for client in clients:
        await client.close()


@pytest.fixture
async def site(make_site: MakeSite) -> Site:
    return await make_site()
