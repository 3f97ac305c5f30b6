"""The page in Firefox ESR, with the echo engine and Firefox's fake microphone, which hums a tone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.e2e.conftest import OpenFirefox, Serve
from tests.e2e.detour import running_detour
from tests.e2e.firefox import Firefox
from tests.e2e.page import ASKED_AGAIN_JS, WATCH_STATES_JS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

LIVE = "['listening', 'hearing', 'speaking', 'interrupted'].includes(document.body.dataset.state)"

WALKS = 3
"""The page waits 3 s for sound before it tries another way; a busy machine may need longer, but not each time."""
MOST_LOST = 0.02
"""On loopback, where only a machine that is too busy loses a packet."""

TURNS = "document.querySelectorAll('#transcript .turn').length"


async def start(firefox: Firefox) -> None:
    await firefox.click("#call")
    await firefox.wait_until(LIVE)


async def end(firefox: Firefox) -> None:
    await firefox.click("#call")
    await firefox.wait_until("document.body.dataset.state === 'ended'")


async def settled(firefox: Firefox, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was received and sent in the next `seconds`: reports before and after."""
    before = await firefox.evaluate("ear.stats()")
    await asyncio.sleep(seconds)
    return before, await firefox.evaluate("ear.stats()")


async def test_sound_flows_both_ways(serve: Serve, open_firefox: OpenFirefox) -> None:
    """Firefox once decoded no sample of answers whose Opus parameters differ from its own."""
    server = await serve("echo", 1)
    firefox = await open_firefox()
    await firefox.open(server.url)
    await firefox.wait_until("document.querySelector('#engine').textContent.includes('echo')")
    await start(firefox)
    await asyncio.sleep(1.5)
    before, after = await settled(firefox, 3.0)

    received, sent = after["inbound-rtp"], after["outbound-rtp"]
    assert received["packetsReceived"] - before["inbound-rtp"]["packetsReceived"] > 100
    assert sent["packetsSent"] - before["outbound-rtp"]["packetsSent"] > 100
    assert received["packetsLost"] < MOST_LOST * received["packetsReceived"]
    assert received["totalSamplesReceived"] > 48_000
    assert received["totalAudioEnergy"] > before["inbound-rtp"]["totalAudioEnergy"]
    audio = "(({paused, muted, currentTime}) => ({paused, muted, currentTime}))(document.querySelector('audio'))"
    playing = await firefox.evaluate(audio)
    assert not playing["paused"] and not playing["muted"] and playing["currentTime"] > 0.5
    assert await server.slots_in_use() == 1
    await end(firefox)


async def test_mute_end_and_start_again(serve: Serve, open_firefox: OpenFirefox) -> None:
    server = await serve("echo", 1)
    firefox = await open_firefox()
    await firefox.open(server.url)
    await start(firefox)
    await firefox.wait_until("document.querySelector('#transcript .turn.user') !== null")
    await firefox.click("#mute")
    await firefox.wait_until("document.querySelector('#mute').getAttribute('aria-pressed') === 'true'")
    await asyncio.sleep(2)
    before, after = await settled(firefox, 2.0)
    energy = after["inbound-rtp"]["totalAudioEnergy"] - before["inbound-rtp"]["totalAudioEnergy"]
    assert energy < 1e-4
    await firefox.click("#mute")
    await end(firefox)
    await server.wait_slots_in_use(0)
    await firefox.wait_until("document.querySelector('#status').textContent === 'Call ended'")

    await start(firefox)
    assert await server.slots_in_use() == 1
    await end(firefox)
    await server.wait_slots_in_use(0)
    assert await firefox.evaluate("document.querySelector('#error').textContent") == ""


async def test_a_reload_goes_on_with_the_call_at_a_click(serve: Serve, open_firefox: OpenFirefox) -> None:
    """Firefox does not say that it would give the microphone without asking, so the page asks for a gesture."""
    server = await serve("echo", 1, "--resume-s", "60")
    firefox = await open_firefox()
    await firefox.open(server.url)
    await start(firefox)
    await firefox.wait_until("document.querySelector('#transcript .turn.user') !== null")
    session = await firefox.evaluate("rtc.client.sessionId")
    turns = await firefox.evaluate(TURNS)
    await firefox.reload()
    await firefox.wait_until("document.querySelector('#call').textContent.trim() === 'Continue'")
    assert await server.slots_in_use() == 1
    await start(firefox)
    assert await firefox.evaluate("rtc.client.sessionId") == session
    assert await firefox.evaluate(TURNS) >= turns
    before, after = await settled(firefox, 2.0)
    assert after["inbound-rtp"]["packetsReceived"] - before["inbound-rtp"]["packetsReceived"] > 60
    await end(firefox)
    await server.wait_slots_in_use(0)
    await firefox.reload()
    await firefox.wait_until("document.querySelector('#call').textContent.trim() === 'Start talking'")


async def test_a_call_goes_on_over_another_network(serve: Serve, open_firefox: OpenFirefox) -> None:
    server = await serve("echo", 1)
    async with running_detour(server) as detour:
        firefox = await open_firefox()
        await firefox.before_each_page(detour.script)
        await firefox.open(server.url)
        await start(firefox)
        await asyncio.sleep(1.5)
        await firefox.evaluate(WATCH_STATES_JS)
        for _ in range(WALKS):
            connections = await firefox.evaluate("ear.peers.length")
            await firefox.evaluate("void (states.length = 0)")
            detour.leave()
            await firefox.wait_until("states.includes('reconnecting')")
            await firefox.wait_until(LIVE, within_s=20)
            before, after = await settled(firefox, 1.0)
            assert after["inbound-rtp"]["packetsReceived"] - before["inbound-rtp"]["packetsReceived"] > 30
            if await firefox.evaluate("ear.peers.length") == connections:
                break
        else:
            pytest.fail("an ICE restart was never enough")
        assert (await firefox.evaluate(ASKED_AGAIN_JS))[0] == "restart"
        await end(firefox)
