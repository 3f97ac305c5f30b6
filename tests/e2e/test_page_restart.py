"""A server that is really stopped and started again under a page that is in a call."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.listen import wait_heard
from tests.e2e.page import TalkPage
from tests.e2e.speech import chatter, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]


async def test_a_server_that_is_restarted_is_called_again_by_the_page_itself(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    first = await serve("echo", 1)
    microphone = write_microphone(tmp_path / "microphone.wav", silence(0.5), chatter(60), pad_s=0)
    chromium = await open_chromium(first, microphone)
    chromium.expected_errors.append("net::ERR_CONNECTION_REFUSED")  # it is asked for until it is back
    talk = TalkPage(await chromium.open())
    await talk.start()
    await wait_heard(talk.page, sound=True)
    session = await talk.page.evaluate("rtc.client.sessionId")

    assert await first.stop() == 0, "it ends in order, call or no call"
    await talk.wait_state("ended")
    await talk.expect_error("The server goes down")
    await talk.expect_error("the page makes a new call by itself")
    await expect(talk.page.get_by_role("button", name="Don’t call again")).to_be_visible()
    await expect(talk.engine).to_have_attribute("data-health", "down")
    assert await talk.page.evaluate("ear.microphones.every(({ readyState }) => readyState === 'ended')")

    second = await serve("echo", 1, after=first)
    await talk.wait_live()
    await talk.expect_error("This is a new conversation")
    assert await talk.page.evaluate("rtc.client.sessionId") not in (session, None)
    assert await second.slots_in_use() == 1
    await expect(talk.engine).to_have_attribute("data-health", "full")
    await wait_heard(talk.page, sound=True)
    await talk.end()
    await second.wait_slots_in_use(0)
