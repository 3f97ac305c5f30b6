"""RTP with stock aiortc at the other end, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rtc_server.media.rtcp import Bye, RtcpPacket, parse
from rtc_server.transports.rtp import session as rtp_session
from rtc_server.transports.webrtc.transport import WebRtcConfig
from tests.transports.webrtc.callers import TONE_HZ, Caller, House, echoing, house, let_aioice_use_loopback
from tests.transports.webrtc.waiting import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    let_aioice_use_loopback(monkeypatch)
    yield


async def test_a_peer_that_stops_its_track_says_rtcp_bye_and_stays_in_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[RtcpPacket] = []

    def parse_and_remember(data: bytes) -> list[RtcpPacket]:
        received.extend(parse(data))
        return parse(data)

    monkeypatch.setattr(rtp_session, "parse", parse_and_remember)
    async with house() as home:
        caller = Caller()
        leg, handler = await home.connect(caller)
        async with echoing(leg):
            await eventually(lambda: caller.heard)
            await caller.connection.getSenders()[0].stop()
            await eventually(lambda: any(isinstance(packet, Bye) for packet in received))
            heard = len(caller.heard)
            await eventually(lambda: len(caller.heard) > heard + 25)
            caller.channel.send("still here")
            await eventually(lambda: handler.messages)
        assert not handler.closed
        await caller.close()
        await eventually(lambda: handler.closed == ["peer_closed"])


async def test_with_dtx_a_silent_agent_sends_next_to_nothing_and_is_heard_when_it_speaks() -> None:
    home = House(WebRtcConfig(0, dtx=True))
    await home.transport.start()
    home.pacer.start()
    try:
        caller = Caller()
        leg, handler = await home.connect(caller)
        sent = leg._rtp._agreed.sender.statistics
        await asyncio.sleep(0.5)  # libopus takes 200 ms to believe in a pause
        before = sent.packets_sent
        await asyncio.sleep(1.0)
        assert sent.packets_sent - before < 10
        async with echoing(leg):
            await eventually(lambda: sum(map(len, caller.heard)) > 2 * 48_000)
        assert caller.heard_hz() == pytest.approx(TONE_HZ, abs=5)
        assert not handler.closed
        await caller.close()
    finally:
        await home.transport.close()
        await home.pacer.stop()
