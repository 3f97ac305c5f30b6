"""Whatever the other end and the network do: every call ends once, for one reason, and nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import replace

import pytest

from rtc_server.errors import RtcServerError
from rtc_server.transports.sip.call.call import Call
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.network.target import Target
from tests.transports.sip.call.fakes import TRUNK, World, events_of
from tests.transports.sip.call.phone import THEM, US, Phone, sdp

BODIES = ("", sdp(), sdp(direction="inactive"), sdp("18 G729/8000"), sdp(port=0), "nonsense", "v=0\r\n")
HEADERS = (
    "",
    "Require: 100rel",
    "Require: x",
    "Session-Expires: 90;refresher=uac\r\nSupported: timer",
    "Session-Expires: 90;refresher=uas\r\nSupported: timer\r\nAllow: INVITE, ACK, BYE, UPDATE",
    "Contact: *",
)
REQUESTS = ("INVITE", "UPDATE", "BYE", "INFO", "OPTIONS", "REFER", "PRACK", "MESSAGE")
STATUSES = (100, 180, 183, 200, 202, 302, 401, 404, 408, 422, 481, 486, 491, 500, 603)
TAGS = (None, None, "another", "third")
"""Of the phones of a forked call."""
REFERRED = "Refer-To: <sip:+15550124@198.51.100.7>"
PROGRESS = "Event: refer\r\nSubscription-State: active\r\nContent-Type: message/sipfrag"


class Chaos:
    """A phone that does anything at any time, over a network that loses one datagram in five, or by a connection that
    breaks now and then."""

    def __init__(self, seed: int, transport: str) -> None:
        self.random = random.Random(seed)
        self.flow = Flow("udp" if transport == "udp" else "tcp", US, THEM)
        trunk = replace(TRUNK, refer="accept", target=Target(self.flow.transport, *THEM))
        self.world = World(trunks=[trunk])
        if not self.flow.reliable:
            self.world.network.lose = lambda datagram: self.random.random() < 0.2
        self.calls: dict[str, Call] = {}
        self.transfers: list[asyncio.Task[None]] = []

    async def run(self, steps: int) -> None:
        phone = self.world.phone(self.flow)
        if self.random.random() < 0.5:
            await self.world.agent.dial("+15550123")
        else:
            phone.invite(self.random.choice(BODIES[:3]), self.random.choice(HEADERS[:5]))
        await self.world.settle()
        for _ in range(steps):
            self.calls |= {call.id: call for call in self.world.agent.calls}
            await self._step(phone)
        for call in self.world.agent.calls:
            call.hangup()

    async def _step(self, phone: Phone) -> None:
        choice, body, headers = self.random.random(), self.random.choice(BODIES), self.random.choice(HEADERS)
        asked = [message for message in phone.received if isinstance(message, Request) and message.method != "ACK"]
        if choice < 0.2:
            await self.world.tick()
        elif choice < 0.33:
            await self.world.advance(self.random.choice((0.1, 0.6, 5, 21)))
        elif choice < 0.36:
            self._disturb()
        elif choice < 0.45 and phone.cseq in phone._branches:
            phone.cancel() if self.random.random() < 0.3 else phone.ack(body)
        elif choice < 0.75 and asked:
            to = self.random.choice(asked)
            if "tag=" not in (to.headers.get("To") or ""):
                phone.join(to)
            phone.answer(self.random.choice(STATUSES), body, headers, to=to.method, tag=self.random.choice(TAGS))
        elif choice < 0.8:
            phone.send("NOTIFY", f"SIP/2.0 {self.random.choice(STATUSES)} So\r\n", PROGRESS)
        elif choice < 0.97:
            method = self.random.choice(REQUESTS)
            phone.send(method, body, REFERRED if method == "REFER" else headers)
        else:
            for call in self.world.agent.calls:
                call.hangup()
        await self.world.settle()

    def _disturb(self) -> None:
        if self.flow.reliable and self.random.random() < 0.5:
            self.world.network.break_flow(self.flow)
            return
        for call in self.world.agent.calls:
            self.transfers.append(asyncio.get_running_loop().create_task(_transferred(call)))


async def _transferred(call: Call) -> None:
    with contextlib.suppress(RtcServerError):
        await call.transfer("sip:+15550123@198.51.100.7")


@pytest.mark.parametrize("transport", ["udp", "tcp"])
@pytest.mark.parametrize("seed", range(40))
async def test_nothing_is_left_of_a_call_whatever_happened(seed: int, transport: str) -> None:
    chaos = Chaos(seed, transport)
    await chaos.run(steps=50)
    await chaos.world.advance(200)
    for call in chaos.world.agent.calls:  # that the other end had us begin
        call.hangup()
    await chaos.world.advance(200)
    await chaos.world.assert_nothing_left()
    assert all(task.done() for task in chaos.transfers)
    for call in chaos.calls.values():
        ends = [event for event in await events_of(call) if event["type"] == "ended"]
        assert len(ends) == 1
        assert ends[0]["reason"] == call.end_reason != "internal_error"
