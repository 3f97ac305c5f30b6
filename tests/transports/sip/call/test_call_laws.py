"""Whatever the other end and the network do: every call ends once, for one reason, and nothing of it is left."""

from __future__ import annotations

import random

import pytest

from rtc_server.transports.sip.call.call import Call
from rtc_server.transports.sip.message.message import Request
from tests.transports.sip.call.fakes import World, events_of
from tests.transports.sip.call.phone import Phone, sdp

BODIES = ("", sdp(), sdp(direction="inactive"), sdp("18 G729/8000"), sdp(port=0), "nonsense", "v=0\r\n")
HEADERS = (
    "",
    "Require: 100rel",
    "Require: x",
    "Session-Expires: 90;refresher=uac\r\nSupported: timer",
    "Session-Expires: 90;refresher=uas\r\nSupported: timer\r\nAllow: INVITE, ACK, BYE, UPDATE",
    "Contact: *",
)
TAGS = (None, None, "another", "third")
"""Of the phones of a forked call."""
REQUESTS = ("INVITE", "UPDATE", "BYE", "INFO", "OPTIONS", "REFER", "NOTIFY", "PRACK", "MESSAGE")
STATUSES = (100, 180, 183, 200, 202, 302, 401, 404, 408, 422, 481, 486, 491, 500, 603)


class Chaos:
    """A phone that does anything at any time, over a network that loses one datagram in five."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World()
        self.world.network.lose = lambda datagram: self.random.random() < 0.2
        self.calls: list[Call] = []

    async def run(self, steps: int) -> None:
        phone = self.world.phone()
        if self.random.random() < 0.5:
            self.calls.append(await self.world.agent.dial("+15550123"))
            await self.world.settle()
        else:
            phone.invite(self.random.choice(BODIES[:3]), self.random.choice(HEADERS[:5]))
            await self.world.settle()
            self.calls += self.world.agent.calls
        for _ in range(steps):
            await self._step(phone)
        for call in self.world.agent.calls:
            call.hangup()

    async def _step(self, phone: Phone) -> None:
        choice, body, headers = self.random.random(), self.random.choice(BODIES), self.random.choice(HEADERS)
        asked = [message for message in phone.received if isinstance(message, Request) and message.method != "ACK"]
        if choice < 0.2:
            await self.world.tick()
        elif choice < 0.35:
            await self.world.advance(self.random.choice((0.1, 0.6, 5, 21)))
        elif choice < 0.45 and phone.cseq in phone._branches:
            phone.cancel() if self.random.random() < 0.3 else phone.ack(body)
        elif choice < 0.8 and asked:
            to = self.random.choice(asked)
            if "tag=" not in (to.headers.get("To") or ""):
                phone.join(to)
            phone.answer(self.random.choice(STATUSES), body, headers, to=to.method, tag=self.random.choice(TAGS))
        elif choice < 0.97:
            phone.send(self.random.choice(REQUESTS), body, headers)
        else:
            for call in self.world.agent.calls:
                call.hangup()
        await self.world.settle()


@pytest.mark.parametrize("seed", range(60))
async def test_nothing_is_left_of_a_call_whatever_happened(seed: int) -> None:
    chaos = Chaos(seed)
    await chaos.run(steps=40)
    await chaos.world.advance(200)
    await chaos.world.assert_nothing_left()
    for call in chaos.calls:
        ends = [event for event in await events_of(call) if event["type"] == "ended"]
        assert len(ends) == 1
        assert ends[0]["reason"] == call.end_reason != "internal_error"
