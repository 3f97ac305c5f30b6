"""``/v1/connectivity`` on a real transport: what is refused, and a stock client that comes through."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from pydantic import SecretStr

from rtc_server.config import HttpSettings
from rtc_server.http.app import create_app
from rtc_server.http.auth import Gate
from rtc_server.http.connectivity import ConnectivityTests
from rtc_server.http.info import Info
from rtc_server.http.page import Page
from rtc_server.http.sessions import Sessions
from rtc_server.transports.webrtc.connectivity import Connectivity
from rtc_server.transports.webrtc.connectivitytest import MAX_TESTS
from rtc_server.transports.webrtc.transport import WebRtcTransport
from rtc_server.transports.webrtc.turn import IceServers
from tests.http.conftest import KEY, TestSite
from tests.session.conftest import House
from tests.session.fakes import FakeEngine
from tests.transports.webrtc import offers
from tests.transports.webrtc.callers import house as transports
from tests.transports.webrtc.callers import let_aioice_use_loopback
from tests.transports.webrtc.waiting import eventually

OFFER = {"sdp": offers.read("S04"), "type": "offer"}
PATH = "/v1/connectivity"


@dataclass
class Place:
    client: TestClient[Any, Any]
    house: House
    webrtc: WebRtcTransport

    async def test(self, offer: object = OFFER, **headers: str) -> tuple[int, dict[str, Any], Any]:
        response = await self.client.post(PATH, json=offer, headers=headers)
        return response.status, await response.json(), response.headers


@asynccontextmanager
async def place(api_key: str | None = None, max_half_open: int = 64, **http: Any) -> AsyncIterator[Place]:
    """A full server: no slot is ever free. In the end no test is left."""
    house = House(engine=FakeEngine(slots=0))
    gate = Gate(HttpSettings(api_key=SecretStr(api_key) if api_key else None, **http))
    async with transports() as home:
        info = Info(house.engine, house.admission, lambda: Connectivity(True, "", ()), gate.needs_key, IceServers())
        sessions = Sessions(house.admission, house.registry, home.transport, IceServers())
        tests = ConnectivityTests(house.admission, house.registry, home.transport, max_half_open)
        client: TestClient[Any, Any] = TestClient(TestSite(create_app(gate, sessions, info, Page(), tests)))
        await client.start_server()
        try:
            yield Place(client, house, home.transport)
            assert not house.engine.prompts and not len(house.registry)
        finally:
            await client.close()


@pytest.mark.e2e
async def test_a_stock_client_comes_through_to_a_full_server(monkeypatch: pytest.MonkeyPatch) -> None:
    let_aioice_use_loopback(monkeypatch)
    async with place() as here:
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        messages: list[str] = []
        connection.createDataChannel("test").on("message", messages.append)
        await connection.setLocalDescription(await connection.createOffer())
        offer = {"sdp": connection.localDescription.sdp, "type": "offer"}
        status, answer, _ = await here.test(offer)
        assert status == 201 and set(answer) == {"id", "sdp", "type"} and answer["type"] == "answer"
        await connection.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        await eventually(lambda: messages)
        assert json.loads(messages[0])["type"] == "connectivity.ok"
        await connection.close()
        await eventually(lambda: not here.webrtc.tests)


async def test_more_than_eight_at_once_are_told_when_to_come_again() -> None:
    async with place() as here:
        for _ in range(MAX_TESTS):
            assert (await here.test())[0] == 201
        status, body, headers = await here.test("what it says does not matter any more")
        assert (status, body["code"]) == (429, "too_many_tests")
        assert int(headers["Retry-After"]) > 0 and body["hint"]
        assert len(here.webrtc.tests) == MAX_TESTS


async def test_those_who_come_together_are_no_more_than_eight() -> None:
    async with place() as here:
        statuses = await asyncio.gather(*(here.test() for _ in range(2 * MAX_TESTS)))
        assert sorted(status for status, *_ in statuses) == [201] * MAX_TESTS + [429] * MAX_TESTS


async def test_tests_count_as_half_open() -> None:
    async with place(max_half_open=2) as here:
        assert [(await here.test())[0] for _ in range(3)] == [201, 201, 503]
        _, body, headers = await here.test()
        assert body["code"] == "too_many_half_open" and headers["Retry-After"]


async def test_a_server_that_is_going_down_tests_nothing() -> None:
    async with place() as here:
        here.house.admission.draining = True
        assert (await here.test())[1]["code"] == "engine_draining"


@pytest.mark.parametrize(
    ("offer", "status", "code"),
    [
        ([], 400, "bad_request"),
        ({}, 400, "bad_request"),
        ({"sdp": 5}, 400, "bad_request"),
        ({"sdp": "v=0", "type": "answer"}, 400, "bad_request"),
        ({"sdp": "nonsense"}, 400, "bad_offer"),
        ({"sdp": offers.read("S17")}, 422, "unsupported_offer"),
        ({"sdp": "v" * 33_000}, 413, "too_large"),
    ],
)
async def test_what_is_no_offer_for_a_data_channel_is_refused(offer: object, status: int, code: str) -> None:
    async with place() as here:
        told, body, _ = await here.test(offer)
        assert (told, body["code"]) == (status, code) and body["message"]
        assert not here.webrtc.tests


async def test_the_key_and_the_origin_count_as_for_a_call() -> None:
    async with place(api_key=KEY, allow_origin=["https://friend.example"]) as here:
        assert (await here.test())[0] == 401
        bearer = {"Authorization": f"Bearer {KEY}"}
        assert (await here.test(Origin="https://evil.example", **bearer))[0] == 403
        status, _, headers = await here.test(Origin="https://friend.example", **bearer)
        assert (status, headers["Access-Control-Allow-Origin"]) == (201, "https://friend.example")
