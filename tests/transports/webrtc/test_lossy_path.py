"""Calls over a path that loses DTLS and SCTP, both ways and with seeds: they connect, and events pass."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import pytest

from rtc_server import events
from rtc_server.events import Numbered
from rtc_server.transports.webrtc.peer import WebRtcLeg
from tests.transports.webrtc.callers import Caller, Handler, House, house, let_aioice_use_loopback
from tests.transports.webrtc.waiting import eventually

pytestmark = pytest.mark.e2e

MESSAGES = 20
DEADLINE_S = 30.0


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    let_aioice_use_loopback(monkeypatch)
    yield


def lose(leg: WebRtcLeg, lost: Callable[[bytes], bool]) -> None:
    """Lose datagrams other than STUN and media, both ways, when `lost` says so."""
    channel = leg.connection._channel
    send, receive = channel._send_datagram, channel.receive

    def lossy_send(data: bytes) -> bool:
        return True if lost(data) else send(data)

    def lossy_receive(data: bytes) -> bool:
        if 127 < data[0] < 192 or not lost(data):
            return receive(data)
        return False

    channel._send_datagram = lossy_send
    leg.connection.agent.on_datagram = lossy_receive


async def call(home: House, caller: Caller, setup: str) -> tuple[WebRtcLeg, Handler, str]:
    """A leg whose DTLS role is `setup`, and the answer, which the caller has not got yet."""
    handler = Handler()
    offered = "passive" if setup == "active" else "actpass"
    offer = (await caller.offer()).replace("a=setup:actpass", f"a=setup:{offered}")
    leg, answer = await home.transport.create(offer, handler)
    assert f"a=setup:{setup}" in answer
    return leg, handler, answer


async def test_lost_last_flight_is_repeated_and_the_client_connects() -> None:
    async with house() as home:
        caller = Caller()
        leg, _, answer = await call(home, caller, "passive")
        dropped: list[bytes] = []

        def is_first_finished(data: bytes) -> bool:
            if data[0] != 20 or dropped:
                return False
            dropped.append(data)
            return True

        lose(leg, is_first_finished)
        await caller.answer(answer)
        await eventually(lambda: caller.connection.connectionState == "connected")
        assert len(dropped) == 1
        assert leg.connection._channel.flights.repeated >= 1
        await caller.close()


async def test_client_hello_of_ours_that_is_lost_is_repeated() -> None:
    async with house() as home:
        caller = Caller()
        leg, handler, answer = await call(home, caller, "active")
        dropped: list[bytes] = []

        def is_early(data: bytes) -> bool:
            if len(dropped) < 2:
                dropped.append(data)
                return True
            return False

        lose(leg, is_early)
        await caller.answer(answer)
        await eventually(lambda: caller.connection.connectionState == "connected" and handler.connected.is_set())
        assert all(data[0] == 22 for data in dropped)
        assert leg.connection._channel.flights.repeated >= 2
        repeated = leg.connection._channel.flights.repeated
        await eventually(lambda: caller.channel.readyState == "open")
        await asyncio.sleep(0.2)
        assert leg.connection._channel.flights.repeated == repeated, "our handshake is done, so nothing is repeated"
        await caller.close()


@pytest.mark.parametrize("setup", ["passive", "active"])
@pytest.mark.parametrize("loss", [0.1, 0.2])
@pytest.mark.parametrize("seed", range(3))
async def test_call_connects_and_every_event_passes(seed: int, loss: float, setup: str) -> None:
    async with house(dtls_timeout_s=DEADLINE_S) as home:
        caller = Caller()
        leg, handler, answer = await call(home, caller, setup)
        rng = random.Random(seed)
        lose(leg, lambda data: rng.random() < loss)
        await caller.answer(answer)
        await eventually(lambda: caller.channel.readyState == "open", DEADLINE_S)
        for number in range(MESSAGES):
            leg.send_event(Numbered(number + 1, events.SessionReady()))
            caller.channel.send("x")
            await asyncio.sleep(0.02)
        await eventually(lambda: len(caller.messages) == MESSAGES == len(handler.messages), DEADLINE_S)
        assert not handler.closed
        await caller.close()
