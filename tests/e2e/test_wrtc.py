"""libwebrtc without a browser (@roamhq/wrtc) calls the echo engine, and restarts ICE."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.conftest import Serve
from tests.e2e.peer_process import PeerProcess, audible_share, loudest_hz, pcm_of, running_peer
from tests.e2e.server import ServerProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

CLIENT = Path(__file__).with_name("wrtc") / "client.js"
RATE_HZ = 48_000


@pytest_asyncio.fixture
async def server(serve: Serve) -> ServerProcess:
    return await serve("echo")


@pytest_asyncio.fixture
async def libwebrtc(server: ServerProcess) -> AsyncIterator[PeerProcess]:
    node = shutil.which("node")
    if node is None or not (CLIENT.parent / "node_modules").exists():
        pytest.skip("no @roamhq/wrtc here: make peers")
    async with running_peer([node, str(CLIENT), server.url]) as peer:
        yield peer


async def test_hears_its_own_tone_and_gets_the_events(libwebrtc: PeerProcess, server: ServerProcess) -> None:
    await libwebrtc.ask("connect")
    await asyncio.sleep(3)
    heard = await libwebrtc.ask("heard")

    pcm = pcm_of(heard["pcm"])[-RATE_HZ:]
    assert loudest_hz(pcm, RATE_HZ) == pytest.approx(440, abs=3)
    assert audible_share(pcm, RATE_HZ) > 0.7
    assert heard["lost"] == 0
    assert [event["type"] for event in heard["events"]][0] == "session.created"
    await libwebrtc.ask("close")
    await server.wait_slots_in_use(0, within_s=15)


async def test_an_ice_restart_loses_no_packet(libwebrtc: PeerProcess, server: ServerProcess) -> None:
    first = await libwebrtc.ask("connect")
    for _ in range(3):
        restart = await libwebrtc.ask("restart")
        assert _ufrag(restart["answer"]) != _ufrag(restart["before"])
        assert _fingerprint(restart["answer"]) == _fingerprint(first["answer"])
        await asyncio.sleep(1)
    heard = await libwebrtc.ask("heard")

    assert heard["lost"] == 0
    pcm = pcm_of(heard["pcm"])[-RATE_HZ:]
    assert loudest_hz(pcm, RATE_HZ) == pytest.approx(440, abs=3)
    await libwebrtc.ask("close")
    await server.wait_slots_in_use(0, within_s=15)


def _ufrag(sdp: str) -> str:
    return re.findall(r"a=ice-ufrag:(\S+)", sdp)[0]


def _fingerprint(sdp: str) -> str:
    return re.findall(r"a=fingerprint:(.+)", sdp)[0].strip()
