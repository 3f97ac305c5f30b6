"""Calls with nothing fake but the engine: signalling and audio over sockets on the loopback, both ways."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import pytest

from rtc_server.transports.pacer import Pacer
from rtc_server.transports.sip.call.call import Call, CallState
from rtc_server.transports.sip.call.rtpmedia import RtpMedia
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.media.rtpport import RtpPorts
from rtc_server.transports.sip.network.addresses import OwnAddress
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.network import SipNetwork
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.trunk.gatekeeper import Gatekeeper
from rtc_server.transports.sip.trunk.numbers import NumberRule
from rtc_server.transports.sip.trunk.patterns import Pattern
from rtc_server.transports.sip.trunk.trunks import Trunk, Trunks
from rtc_server.transports.sip.useragent import UserAgent
from tests.session.conftest import House
from tests.session.fakes import FakeEngine
from tests.transports.sip.call.fakes import audio_of
from tests.transports.sip.call.phone import Phone, sdp


def udp_socket(host: str) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind((host, 0))
    bound.setblocking(False)
    return bound


class Line:
    """A server, and a phone with two sockets."""

    def __init__(self, host: str = "127.0.0.1", advertise: str | None = None) -> None:
        self._host, self._advertise = host, advertise
        clock: Any = time.monotonic
        self.house = House(clock=clock, engine=FakeEngine(agent=8000))
        self.sip, self.rtp = udp_socket(host), udp_socket(host)
        self.pacer = Pacer()
        trunk = Trunk(
            "phone",
            networks=(ip_network(host),),
            target=Target("udp", *self.sip.getsockname()[:2]),
            dialable=(Pattern("*"),),
            numbers=(NumberRule(Pattern("*")),),
        )
        trunks = Trunks([trunk])
        self.ports = RtpPorts(41_000, 41_999)
        self.agent = UserAgent(
            lambda *hears: self._open(*hears),
            trunks,
            Gatekeeper(trunks, secret=b"s" * 32),
            self.house.admission,
            RtpMedia(self.ports, self.pacer),
        )
        self.heard = 0

    def _open(self, on_message: Any, on_closed: Any, on_unreadable: Any) -> SipNetwork:
        places = [ListenOn("udp", self._host, 0)]
        self.network = SipNetwork(places, on_message, on_closed, on_unreadable=on_unreadable, advertise=self._advertise)
        return self.network

    async def start(self) -> None:
        await self.agent.start()
        self.pacer.start()
        (place,) = self.network.listening
        self.server = (place.host, place.port)
        flow = Flow("udp", self.server, self.sip.getsockname()[:2])
        self.phone = Phone(lambda data, _: self.sip.sendto(data, self.server) and None, flow)

    async def close(self) -> None:
        await self.agent.close()
        await self.house.registry.close_all("test")
        await self.pacer.stop()
        self.sip.close()
        self.rtp.close()

    @property
    def sdp(self) -> str:
        return sdp(port=self.rtp.getsockname()[1], address=self._host)

    async def until(self, name: str) -> None:
        """The phone receives this method or status."""
        async with asyncio.timeout(5):
            while name not in self.phone.new():
                await self.house.conductor.tick()
                await self._pump(0.005)

    async def talk(self, port: int) -> None:
        """A fifth of a second of conversation."""
        for number in range(10):
            packet = struct.pack("!BBHII", 0x80, 0, number, 160 * number, 7) + b"\xff" * 160
            self.rtp.sendto(packet, (self._host, port))
            if number % 4 == 0:
                await self.house.conductor.tick()
            await self._pump(0.02)

    async def _pump(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        for bound in (self.sip, self.rtp):
            while True:
                try:
                    data = bound.recv(4096)
                except BlockingIOError:
                    break
                if bound is self.sip:
                    self.phone.receive(data)
                elif len(data) == 172:
                    self.heard += 1


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    line = Line()
    await line.start()
    yield line
    await line.close()


@pytest.fixture
async def line_6(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    """Over IPv6, of a server that advertises an IPv4 address even to this machine."""
    monkeypatch.setattr(OwnAddress, "_is_local", lambda own, remote: False)
    line = Line("::1", advertise="203.0.113.7")
    await line.start()
    yield line
    await line.close()


async def end_of(line: Line, call: Call) -> None:
    async with asyncio.timeout(5):
        while line.ports.in_use or line.house.engine.leases:
            await asyncio.sleep(0.005)
    assert call.end_reason is not None


async def is_answered_and_hears_the_agent(line: Line) -> bytes:
    """Until the caller hangs up. The SDP of the answer."""
    line.phone.invite(line.sdp)
    await line.until("180")
    await line.until("200")
    line.phone.ack()
    answer = line.phone.last.body
    await line.talk(audio_of(answer).port)
    assert line.heard >= 4
    (call,) = line.agent.calls
    line.phone.send("BYE")
    await line.until("200")
    await end_of(line, call)
    assert call.end_reason == "peer_closed"
    return answer


async def test_caller_is_answered_and_hears_the_agent(line: Line) -> None:
    assert b"c=IN IP4 127.0.0.1\r\n" in await is_answered_and_hears_the_agent(line)


async def test_caller_over_ipv6_is_answered_whatever_ipv4_address_is_advertised(line_6: Line) -> None:
    assert b"c=IN IP6 ::1\r\n" in await is_answered_and_hears_the_agent(line_6)


async def test_callee_is_rung_and_hears_the_agent(line: Line) -> None:
    call = await line.agent.dial("100", from_="200")
    await line.until("INVITE")
    invite = line.phone.last_request("INVITE")
    line.phone.answer(180)
    line.phone.answer(200, line.sdp)
    await line.until("ACK")
    assert call.state is CallState.ANSWERED
    await line.talk(audio_of(invite.body).port)
    assert line.heard >= 4
    call.hangup()
    await line.until("BYE")
    line.phone.answer(200, to="BYE")
    await end_of(line, call)
