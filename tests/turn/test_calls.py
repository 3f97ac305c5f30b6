"""Calls through the relay by a stock aiortc client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiortc import RTCConfiguration, RTCIceServer, RTCIceTransportPolicy

from rtc_server.transports.webrtc.turn import parse_url
from rtc_server.transports.webrtc.turnclient import TurnClient
from tests.e2e.aiortc_client import AiortcClient
from tests.e2e.server import ServerProcess
from tests.e2e.speech import tone
from tests.turn.conftest import Serve, StartCoturn
from tests.turn.coturn import TCP, TLS, UDP, Coturn
from tests.turn.network import CALLER, NOWHERE, TURN, Network

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

GIVEN_UP_WITHIN_S = 25.0
"""The server gives ICE 10 s; then the slot is free."""
AT_ONCE_S = 3.0
"""Any wait for a TURN server would be longer: its first answer alone is given 4 s, by aioice 32 s."""


async def ice_servers(server: ServerProcess) -> list[dict[str, Any]]:
    _, settings = await server.get("/v1/config")
    entries: list[dict[str, Any]] = settings["ice_servers"]
    return entries


@contextlib.asynccontextmanager
async def calling(server: ServerProcess, entries: list[dict[str, Any]], url: str = "") -> AsyncIterator[AiortcClient]:
    """A client that relays everything, through `url` of what it was told, by default through the first."""
    servers = [RTCIceServer(**entry | {"urls": [url or entry["urls"][0]]}) for entry in entries]
    policy = RTCIceTransportPolicy.RELAY if entries else RTCIceTransportPolicy.ALL
    client = AiortcClient(server.url, tone(60), RTCConfiguration(iceServers=servers, iceTransportPolicy=policy))
    try:
        yield client
    finally:
        await client.close()


def local_candidate(client: AiortcClient) -> tuple[str, str]:
    """Kind and address of the candidate that the media takes."""
    ice = client.peer.getSenders()[0].transport.transport
    pair = ice._connection._nominated[1]
    return pair.local_candidate.type, pair.local_candidate.host


async def assert_heard(client: AiortcClient) -> None:
    """The echo comes back."""
    await asyncio.sleep(2)
    heard = client.heard()
    assert heard.between(heard.end_s - 1, heard.end_s).loudness() > 0.01


@pytest.mark.parametrize("url", [UDP, TCP, TLS], ids=["udp", "tcp", "tls"])
async def test_a_call_goes_through_the_relay(
    coturn: Coturn, serve: Serve, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(coturn.certificate))
    server = await serve(coturn, url)
    async with calling(server, await ice_servers(server)) as client:
        await client.connect()
        assert local_candidate(client) == ("relay", TURN)
        await assert_heard(client)


@pytest.mark.parametrize("url", [TCP, TLS], ids=["tcp", "tls"])
async def test_a_caller_without_udp_gets_through(
    network: Network, coturn: Coturn, serve: Serve, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(coturn.certificate))
    server = await serve(coturn, url)
    network.block_udp()
    async with calling(server, await ice_servers(server)) as client:
        await client.connect()
        assert local_candidate(client) == ("relay", TURN)
        await assert_heard(client)


async def test_a_call_goes_on_when_the_secret_is_rotated_and_the_next_one_gets_the_new(
    coturn: Coturn, serve: Serve
) -> None:
    server = await serve(coturn, UDP)
    async with calling(server, await ice_servers(server)) as first:
        await first.connect()
        before = await ice_servers(server)
        assert coturn.rotate("--leaked") == 0
        assert [entry["username"] for entry in await ice_servers(server)] != [entry["username"] for entry in before]
        async with calling(server, await ice_servers(server)) as second:
            await second.connect()
            await assert_heard(second)
        await assert_heard(first)
    assert coturn.secret not in server.log


def spoiled(coturn: Coturn, kind: str) -> dict[str, Any]:
    """An entry with a credential that coturn refuses."""
    wrong = coturn.credential(secret="not-the-secret-of-coturn") if kind == "wrong" else coturn.credential(ttl_s=-5)
    return {"urls": [UDP], "username": wrong.username, "credential": wrong.password}


@pytest.mark.parametrize("kind", ["wrong", "expired", "over quota"])
async def test_nobody_connects_with_a_bad_credential_and_the_server_frees_everything(
    start_coturn: StartCoturn, serve: Serve, kind: str
) -> None:
    coturn = start_coturn({"TURN_TOTAL_QUOTA": "1"} if kind == "over quota" else None)
    server = await serve(coturn, UDP)
    async with contextlib.AsyncExitStack() as stack:
        if kind == "over quota":
            holder = stack.enter_context(contextlib.closing(await TurnClient.connect(parse_url(UDP))))
            await holder.allocate(coturn.credential("holder"))
            entries = await ice_servers(server)
        else:
            entries = [spoiled(coturn, kind)]
        client = await stack.enter_async_context(calling(server, entries))
        status, body, _ = await client.request("POST", "/v1/sessions", json=await client.offer())
        assert status == 201
        assert "typ relay" not in client.peer.localDescription.sdp
        assert await server.slots_in_use() == 1
        # aiortc without a candidate waits for ever.
        accepting = asyncio.create_task(client.accept(body), name="accept")
        stack.push_async_callback(asyncio.wait, [accepting])
        stack.callback(accepting.cancel)
        await server.wait_slots_in_use(0, GIVEN_UP_WITHIN_S)
        assert client.peer.connectionState != "connected"


async def test_a_black_hole_delays_neither_answer_nor_direct_call(
    network: Network, serve: Serve, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a-secret-for-tests")
    holes = (f"turn:{NOWHERE}?transport=udp", f"turn:{NOWHERE}?transport=tcp", f"turns:{NOWHERE}:443")
    server = await serve(None, *holes, flags=("--turn-secret-file", str(secret)))
    async with calling(server, []) as client:
        offer = await client.offer()
        async with asyncio.timeout(AT_ONCE_S):
            [entry] = await ice_servers(server)
            status, body, headers = await client.request("POST", "/v1/sessions", json=offer)
        assert status == 201
        assert len(entry["urls"]) == len(holes) == headers["Link"].count("ice-server")
        await client.accept(body)
        await client.wait_event("response.created")
        assert local_candidate(client) == ("host", CALLER)
        await assert_heard(client)
