"""A peer that is ICE-lite itself, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from aioice import stun

from rtc_server import events
from rtc_server.errors import BadOffer
from rtc_server.events import Numbered
from rtc_server.transports.webrtc import transport
from rtc_server.transports.webrtc.ice_controlling import UNPROVEN_CHECKS_BURST, ControllingAgent
from rtc_server.transports.webrtc.transport import WebRtcConfig
from tests.transports.webrtc import offers
from tests.transports.webrtc.callers import Handler, House, house
from tests.transports.webrtc.litepairs import TONE_HZ, Pair, connect_pair, loudest_hz, tone
from tests.transports.webrtc.waiting import eventually

pytestmark = pytest.mark.e2e

LOOPBACK = ("127.0.0.1",)


@asynccontextmanager
async def two_houses(ice_timeout_s: float = 10.0) -> AsyncIterator[tuple[House, House]]:
    async with house(ice_timeout_s, advertise_ip=LOOPBACK) as one, house(ice_timeout_s, advertise_ip=LOOPBACK) as two:
        yield one, two
        one.assert_nothing_left()
        two.assert_nothing_left()


async def talk(pair: Pair, frames: int) -> np.ndarray:
    """A tone from the lite leg to the full one and back; returns what the lite leg has heard."""
    heard = []
    next_s = time.monotonic()
    for frame in range(frames):
        next_s += 0.08
        await asyncio.sleep(max(0.0, next_s - time.monotonic()))
        now = time.monotonic()
        pair.lite.write(now, tone(frame))
        pair.full.write(now, pair.full.take(now))
        heard.append(pair.lite.take(now))
    return np.concatenate(heard)


def offer_of_lite_peer(host: str, port: int) -> str:
    candidate = f"a=candidate:1 1 udp 2130706431 {host} {port} typ host"
    return offers.read("S01").replace("a=mid:0", f"a=mid:0\r\na=ice-lite\r\n{candidate}")


@pytest.mark.parametrize("lite_is_client", [False, True])
async def test_two_servers_connect_with_audio_both_ways_and_events(lite_is_client: bool) -> None:
    async with two_houses() as (one, two):
        pair = await connect_pair(one, two, lite_is_client)
        await eventually(lambda: pair.lite_handler.connected.is_set() and pair.full_handler.connected.is_set())
        assert isinstance(pair.full.connection.agent, ControllingAgent)
        assert not isinstance(pair.lite.connection.agent, ControllingAgent)
        channel = pair.open_channel()
        await eventually(lambda: channel.readyState == "open")
        pair.lite.send_event(Numbered(1, events.SessionReady()))
        await eventually(lambda: pair.full_handler.messages)
        heard = await talk(pair, 16)
        assert loudest_hz(heard[-12_000:]) == pytest.approx(TONE_HZ, abs=5)
        assert pair.lite.stats().loss == pair.full.stats().loss == 0.0
        await pair.lite.close("done")
        await eventually(lambda: pair.full_handler.closed == ["peer_closed"])


async def test_controlling_side_says_goodbye_too() -> None:
    async with two_houses() as (one, two):
        pair = await connect_pair(one, two)
        await eventually(lambda: pair.lite_handler.connected.is_set() and pair.full_handler.connected.is_set())
        await pair.full.close("done")
        await eventually(lambda: pair.lite_handler.closed == ["peer_closed"])


async def test_restart_between_two_servers_keeps_the_call() -> None:
    async with two_houses() as (one, two):
        pair = await connect_pair(one, two)
        await eventually(lambda: pair.lite_handler.connected.is_set() and pair.full_handler.connected.is_set())
        before = {pair.lite: pair.lite.connection.agent.ufrags, pair.full: pair.full.connection.agent.ufrags}
        await pair.restart("second")
        for leg, ufrags in before.items():
            await eventually(lambda leg=leg: len(leg.connection.agent.ufrags) == 1)  # type: ignore[misc]
            assert leg.connection.agent.ufrags != ufrags
        heard = await talk(pair, 16)
        assert loudest_hz(heard[-12_000:]) == pytest.approx(TONE_HZ, abs=5)
        assert not pair.lite_handler.closed and not pair.full_handler.closed
        await pair.lite.close("done")
        await eventually(lambda: pair.full_handler.closed == ["peer_closed"])


async def test_lite_peer_that_is_not_there_is_given_up_after_a_bounded_number_of_checks() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as victim:
        victim.bind(("127.0.0.1", 0))
        victim.setblocking(False)
        async with house(ice_timeout_s=0.5, advertise_ip=LOOPBACK) as home:
            handler = Handler()
            await home.transport.create(offer_of_lite_peer("127.0.0.1", victim.getsockname()[1]), handler)
            await eventually(lambda: handler.closed == ["ice_failed"], 5)
            home.assert_nothing_left()
        received = []
        while True:
            try:
                received.append(victim.recv(2048))
            except BlockingIOError:
                break
        assert 3 <= len(received) <= UNPROVEN_CHECKS_BURST
        assert all(stun.parse_message(data).message_class == stun.Class.REQUEST for data in received)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(
    ("config", "own", "checked"),
    [
        (WebRtcConfig(0), ["192.0.2.7", "127.0.0.1"], False),
        (WebRtcConfig(0, local_callers=True), ["192.0.2.7", "127.0.0.1"], True),
        (WebRtcConfig(0, local_callers=True), ["192.0.2.7"], False),
        (WebRtcConfig(0, ("127.0.0.1",)), [], True),
        (WebRtcConfig(0, ("::1",)), [], True),
        (WebRtcConfig(0, ("203.0.113.1",), local_callers=True), ["127.0.0.1"], False),
    ],
    ids=["open web server", "local", "local, no loopback", "loopback named", "::1 named", "another address named"],
)
async def test_strangers_cannot_make_the_server_send_to_its_own_loopback(
    host: str, config: WebRtcConfig, own: list[str], checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        transport, "advertised_addresses", lambda configured, families: list(configured) if configured else own
    )
    home = House(config)
    await home.transport.start()
    try:
        if checked:
            await home.transport.create(offer_of_lite_peer(host, 9), Handler())
        else:
            with pytest.raises(BadOffer, match="can be checked"):
                await home.transport.create(offer_of_lite_peer(host, 9), Handler())
            home.assert_nothing_left()
    finally:
        await home.transport.close()
