"""Transfers that the other end asks for, where a trunk may."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rtc_server.transports.sip.call.call import CallState
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.trunk.trunks import Trunk
from tests.transports.sip.call.fakes import TRUNK, World
from tests.transports.sip.call.phone import US, Phone, sdp

GATEWAY = ("198.51.100.50", 5060)
ACCEPTING = replace(TRUNK, refer="accept", target=Target("udp", *GATEWAY))


async def referred(target: str = "<sip:+15550123@example.com>") -> tuple[World, Phone, Phone]:
    world = World(trunks=[ACCEPTING])
    phone, third = await world.answered(), world.phone(Flow("udp", US, GATEWAY))
    phone.send("REFER", headers=f"Refer-To: {target}")
    await world.settle()
    return world, phone, third


def notified(phone: Phone) -> tuple[str, str]:
    notify = phone.last_request("NOTIFY")
    return notify.body.decode().strip(), (notify.headers.get("Subscription-State") or "").partition(";")[0]


async def test_number_is_called_and_the_progress_told() -> None:
    world, phone, third = await referred()
    assert phone.new() == ["202", "NOTIFY"]
    assert notified(phone) == ("SIP/2.0 100 Trying", "active")
    assert (phone.last_request("NOTIFY").headers.get("Event") or "").startswith("refer")
    assert third.last_request("INVITE").uri.startswith("sip:+15550123@")
    phone.answer(200, to="NOTIFY")
    third.answer(180)
    await world.settle()
    assert notified(phone) == ("SIP/2.0 180 Ringing", "active")
    third.answer(200, sdp())
    await world.settle()
    assert notified(phone) == ("SIP/2.0 200 OK", "terminated")
    assert [prompt.voice for prompt in world.house.engine.prompts] == ["alto", "alto"]
    phone.send("BYE")
    await world.settle()
    assert world.call.state is CallState.ANSWERED
    assert world.call.direction == "outbound"


async def test_failure_of_the_referred_call_is_told() -> None:
    world, phone, third = await referred()
    third.answer(486)
    await world.settle()
    assert notified(phone) == ("SIP/2.0 486 Busy Here", "terminated")
    assert world.call.state is CallState.ANSWERED


async def test_phone_that_wants_to_hear_nothing_of_its_referral_stays() -> None:
    world, phone, _ = await referred()
    call = next(iter(world.agent.calls))
    phone.answer(481, to="NOTIFY")
    await world.settle()
    assert call.state is CallState.ANSWERED


async def test_one_referral_at_a_time() -> None:
    world, phone, _ = await referred()
    phone.new()
    phone.send("REFER", headers="Refer-To: <sip:+15550124@example.com>")
    await world.settle()
    assert phone.new() == ["603"]


@pytest.mark.parametrize(
    ("target", "answer"),
    [
        ("<sip:+4930123@example.com>", "403"),
        ("<sip:+15550123@example.com?Replaces=x%3Bto-tag%3Da%3Bfrom-tag%3Db>", "603"),
        ("<sip:+15550123@example.com;method=BYE>", "603"),
        ("<sip:example.com>", "603"),
        ("<nonsense>", "400"),
    ],
)
async def test_referrals_that_cost_nothing(target: str, answer: str) -> None:
    world, phone, third = await referred(target)
    assert phone.new() == [answer]
    assert third.received == []
    assert len(world.agent.calls) == 1


@pytest.mark.parametrize("headers", ["", "Refer-To: <sip:+15550123@a.example>\r\nRefer-To: <sip:+15550124@a.example>"])
@pytest.mark.parametrize("trunk", [TRUNK, ACCEPTING])
async def test_referral_to_nobody_or_to_two_is_malformed(trunk: Trunk, headers: str) -> None:
    world = World(trunks=[trunk])
    phone = await world.answered()
    phone.send("REFER", headers=headers)
    await world.settle()
    assert phone.new() == ["400"]
    assert len(world.agent.calls) == 1


async def test_referral_to_a_full_server_fails() -> None:
    world = World(trunks=[ACCEPTING], slots=1)
    phone = await world.answered()
    phone.send("REFER", headers="Refer-To: <sip:+15550123@example.com>")
    await world.settle()
    assert notified(phone) == ("SIP/2.0 503 Service Unavailable", "terminated")
    assert world.call.state is CallState.ANSWERED
