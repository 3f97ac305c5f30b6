"""SIPp calls in."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.sip import scenarios
from tests.e2e.sip.scenarios import expect, probe
from tests.e2e.sip.sipp import Sipp
from tests.e2e.sip.sipserver import AFTER_1500_MS, AT_ONCE, SipServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

STRANGER = "127.0.0.2"
"""An address of no trunk."""


@pytest.mark.parametrize("transport", ["udp", "tcp"])
async def test_a_call_is_answered_and_hung_up(server: SipServer, sipp: Sipp, transport: str) -> None:
    await sipp.call(scenarios.call(500), server.port, transport=transport)


async def test_keys_are_events_of_the_call(server: SipServer, sipp: Sipp) -> None:
    calling = asyncio.create_task(sipp.call(scenarios.call_with_digits("42#"), server.port))
    async with server.feed(await server.only_call()) as feed:
        assert await feed.digits(3) == "42#"
        ended = await feed.until("ended")
    await calling
    assert feed.kinds()[:2] == ["ringing", "answered"]
    assert feed.kinds().count("dtmf") == 3
    assert ended["reason"] == "peer_closed"


async def test_a_stranger_is_asked_for_a_password(server: SipServer, sipp: Sipp) -> None:
    """SIPp takes the first challenge only, and does not know SHA-256: who answers is PJSIP."""
    await sipp.call(scenarios.call_refused(401), server.port, host=STRANGER)


async def test_calls_survive_a_fifth_of_the_messages_lost(server: SipServer, sipp: Sipp) -> None:
    await sipp.call(scenarios.call(300), server.port, calls=10, at_once=10, loss_pct=20)


@pytest.mark.parametrize(
    ("scenario", "number"),
    [
        pytest.param(scenarios.cancel_trying(), AFTER_1500_MS, id="trying"),
        pytest.param(scenarios.cancel_ringing(), AFTER_1500_MS, id="ringing"),
        pytest.param(scenarios.cancel_answered(), AT_ONCE, id="answered"),
        pytest.param(scenarios.cancel_unknown(), AT_ONCE, id="unknown"),
    ],
)
async def test_a_cancel_is_taken_in_every_state(server: SipServer, sipp: Sipp, scenario: str, number: str) -> None:
    await sipp.call(scenario, server.port, number=number)


async def test_a_phone_rings_until_the_agent_is_ready(server: SipServer, sipp: Sipp) -> None:
    calling = asyncio.create_task(sipp.call(scenarios.call(200), server.port, number=AFTER_1500_MS))
    (call,) = await server.wait_calls(1)
    assert call["state"] == "ringing"
    await calling


async def test_a_held_call_is_resumed(server: SipServer, sipp: Sipp) -> None:
    calling = asyncio.create_task(sipp.call(scenarios.call_held(), server.port))
    async with server.feed(await server.only_call()) as feed:
        await feed.until("ended")
    await calling
    assert feed.kinds() == ["ringing", "answered", "held", "resumed", "ended"]


async def test_a_trunk_that_probes_is_answered(server: SipServer, sipp: Sipp) -> None:
    await sipp.call(probe() + expect(200), server.port)


async def test_nobody_has_an_unknown_number(server: SipServer, sipp: Sipp) -> None:
    await sipp.call(scenarios.call_refused(404), server.port, number="5559999")


async def test_thirty_calls_at_once_are_all_answered(server: SipServer, sipp: Sipp) -> None:
    await sipp.call(scenarios.call(2000), server.port, calls=30, at_once=30, per_s=30)
