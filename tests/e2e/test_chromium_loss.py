"""A person on a bad network talks with the embedded agent, in Chromium: the words come through, both ways."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.listen import heard_by, share_of
from tests.e2e.page import TalkPage
from tests.e2e.speech import clearly, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

LOSS_PCT = 15
GREETING_S = 9.0
REPLY_S = 7.0
PACKET_S = 0.02
RECOVERED = "rtc_packets_recovered_total"
CONCEALED = "rtc_concealed_seconds_total"


async def lose_packets(page: Page, loss_pct: float) -> None:
    """From now on so many of the page's media packets are lost, each way; to be called before it makes a connection.

    Chromium ignores the loss where there is no latency.
    """
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Network.enable")
    conditions = {"offline": False, "latency": 20, "downloadThroughput": -1, "uploadThroughput": -1}
    await devtools.send(
        "Network.emulateNetworkConditions", conditions | {"packetLoss": loss_pct, "packetQueueLength": 50}
    )


async def test_with_15_percent_loss_a_conversation_is_understood(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    server = await serve("cascade", 1)
    name, timer = clearly("Hello. My name is Anna."), clearly("Can you set a timer for ten minutes?")
    microphone = write_microphone(tmp_path / "mic.wav", silence(GREETING_S), name, silence(REPLY_S), timer)
    chromium = await open_chromium(server, microphone)
    talk = TalkPage(await chromium.open())
    await lose_packets(talk.page, LOSS_PCT)
    await talk.start()
    await talk.wait_said("agent", "demo voice.* interrupt me", 20)
    await talk.wait_said("user", "my name is|anna", 20)
    await talk.wait_said("agent", "nice to meet you|anna", 20)
    await talk.wait_said("user", "timer", 20)
    await talk.wait_said("agent", "10 minutes", 20)
    await asyncio.sleep(2)

    heard = (await heard_by(talk.page)).words()
    assert share_of(await talk.said("agent"), heard) > 0.5
    received = (await talk.page.evaluate("ear.stats()"))["inbound-rtp"]
    lost = received["packetsLost"] / (received["packetsLost"] + received["packetsReceived"])
    assert 0.08 < lost < 0.25
    await talk.end()
    await server.wait_slots_in_use(0)
    # Chromium sent redundant audio, and it was of more use than what was made up: copies that came too late included.
    recovered, concealed_s = await server.metric(RECOVERED), await server.metric(CONCEALED)
    assert recovered * PACKET_S > concealed_s
