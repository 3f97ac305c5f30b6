"""Connectivity tests with a stock aiortc as the peer, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from rtc_server.errors import BadOffer, TooManyTests, UnsupportedOffer
from rtc_server.transports.webrtc import connectivitytest
from rtc_server.transports.webrtc.connectivitytest import MAX_TESTS
from tests.transports.webrtc import offers
from tests.transports.webrtc.callers import House, house, let_aioice_use_loopback
from tests.transports.webrtc.waiting import eventually

pytestmark = pytest.mark.e2e
DATA_OFFER = offers.read("S04")


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    let_aioice_use_loopback(monkeypatch)
    yield


class Prober:
    """A stock client with a data channel and nothing else."""

    def __init__(self) -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.channel = self.connection.createDataChannel("connectivity")
        self.messages: list[str] = []
        self.channel.on("message", self.messages.append)

    async def offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return self.connection.localDescription.sdp

    async def test(self, home: House) -> None:
        _, answer = home.transport.test(await self.offer())
        await self.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    @property
    def ports(self) -> set[int]:
        """Of its candidates."""
        lines = self.connection.localDescription.sdp.split("\r\n")
        return {int(line.split()[5]) for line in lines if line.startswith("a=candidate:")}


def assert_nothing_left(home: House) -> None:
    home.assert_nothing_left()
    assert not home.transport.tests


async def test_a_peer_that_comes_through_is_told_from_where() -> None:
    async with house() as home:
        prober = Prober()
        await prober.test(home)
        await eventually(lambda: prober.messages)
        told = json.loads(prober.messages[0])
        host, _, port = told["address"].rpartition(":")
        assert told["type"] == "connectivity.ok" and host and int(port) in prober.ports
        assert not home.transport.legs and not home.pacer._senders
        await prober.connection.close()
        await eventually(lambda: not home.transport.tests)
        assert len(prober.messages) == 1
        assert_nothing_left(home)


async def test_a_peer_that_stays_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectivitytest, "CONNECTED_S", 0.5)
    async with house() as home:
        prober = Prober()
        await prober.test(home)
        await eventually(lambda: prober.channel.readyState == "closed")
        assert len(prober.messages) == 1
        assert_nothing_left(home)
        await prober.connection.close()


async def test_a_channel_that_the_peer_closes_ends_the_test() -> None:
    async with house() as home:
        prober = Prober()
        await prober.test(home)
        await eventually(lambda: prober.messages)
        prober.channel.close()
        await eventually(lambda: not home.transport.tests)
        assert_nothing_left(home)
        await prober.connection.close()


async def test_a_hundred_tests_that_never_finish_leave_nothing() -> None:
    async with house(ice_timeout_s=0.05) as home:
        begun = 0
        while begun < 100:
            try:
                home.transport.test(DATA_OFFER)
            except TooManyTests as error:
                assert len(home.transport.tests) == MAX_TESTS and error.retry_after_s
                await asyncio.sleep(0.01)
            else:
                begun += 1
        await eventually(lambda: not home.transport.tests)
        assert_nothing_left(home)


async def test_a_refused_offer_leaves_nothing() -> None:
    async with house() as home:
        for offer, error in (("v=0", UnsupportedOffer), ("nonsense", BadOffer), (offers.read("S17"), UnsupportedOffer)):
            with pytest.raises(error):
                home.transport.test(offer)
            assert_nothing_left(home)


async def test_a_peer_with_another_certificate_is_told_nothing() -> None:
    async with house() as home:
        prober = Prober()
        wrong = ":".join(["AB"] * 32)
        lines = [
            f"a=fingerprint:sha-256 {wrong}" if line.startswith("a=fingerprint:sha-256") else line
            for line in (await prober.offer()).split("\r\n")
            if not line.startswith(("a=fingerprint:sha-384", "a=fingerprint:sha-512"))
        ]
        _, answer = home.transport.test("\r\n".join(lines))
        await prober.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        await eventually(lambda: not home.transport.tests)
        assert not prober.messages
        assert_nothing_left(home)
        await prober.connection.close()


async def test_a_transport_that_closes_ends_tests_in_every_state() -> None:
    async with house() as home:
        prober = Prober()
        await prober.test(home)
        await eventually(lambda: prober.messages)
        waiting, _ = home.transport.test(DATA_OFFER)
        await asyncio.sleep(0.01)
        unbegun, _ = home.transport.test(DATA_OFFER)
        await asyncio.gather(unbegun.close(), waiting.close(), waiting.close())
        assert len(home.transport.tests) == 1
        mux = home.transport.mux
        await home.transport.close()
        assert not home.transport.tests and not mux.by_ufrag and not mux.by_address
        await prober.connection.close()
