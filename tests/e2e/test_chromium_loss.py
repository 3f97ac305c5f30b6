"""A person on a bad network talks with the embedded agent, in Chromium: the words come through, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.listen import heard_by, share_of
from tests.e2e.page import TalkPage
from tests.e2e.speaking import say, take_microphone
from tests.e2e.speech import clearly, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

LOSS_PCT = 15
RECOVERED = "rtc_packets_recovered_total"


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
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    talk = TalkPage(await (await open_chromium(server, microphone)).open())
    await take_microphone(talk.page)
    await lose_packets(talk.page, LOSS_PCT)
    await talk.start()
    await talk.wait_said("agent", "demo voice.* interrupt me", 20)
    await say(talk, clearly("Hello. My name is Anna."), "my name is|anna")
    await talk.wait_said("agent", "nice to meet you|anna", 20)
    await say(talk, clearly("Can you set a timer for ten minutes?"), "timer.* (ten|10)")
    await talk.wait_said("agent", "10 minutes", 20)
    await talk.wait_state("listening")

    heard = (await heard_by(talk.page)).words()
    assert share_of(await talk.said("agent"), heard) > 0.5
    stats = await talk.page.evaluate("ear.stats()")
    received, lost_up = stats["inbound-rtp"], stats["outbound-rtp"]["packetsSent"] * LOSS_PCT / 100
    lost = received["packetsLost"] / (received["packetsLost"] + received["packetsReceived"])
    assert 0.08 < lost < 0.25
    await talk.end()
    await server.wait_slots_in_use(0)
    # Chromium sent redundant audio, and most of what was lost was in it.
    assert await server.metric(RECOVERED) > lost_up / 2
