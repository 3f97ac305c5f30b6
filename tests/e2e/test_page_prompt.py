"""The browser's question for the microphone stands open for minutes before the person sees it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.e2e.conftest import OpenChromium
from tests.e2e.listen import wait_heard
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speech import chatter, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

LOOKS_AWAY_MS = 120_000
PROMPT_JS = """(() => {
  const devices = navigator.mediaDevices;
  if (!devices) return;
  const get = devices.getUserMedia.bind(devices);
  window.prompts = [];
  devices.getUserMedia = (constraints) =>
    new Promise((resolve, reject) => {
      prompts.push({
        allow: () => get(constraints).then(resolve, reject),
        close: () => reject(new DOMException('Permission dismissed', 'NotAllowedError')),
      });
    });
})()"""
"""A question that the browser asks until a test answers it."""


class Requests:
    """What the page has asked the server for."""

    def __init__(self, page: Page) -> None:
        self.made: list[str] = []
        page.on("request", lambda request: self.made.append(f"{request.method} {request.url.partition('/v1/')[2]}"))

    @property
    def offers(self) -> int:
        return self.made.count("POST sessions")


async def opened(server: ServerProcess, open_chromium: OpenChromium, tmp_path: Path) -> tuple[TalkPage, Requests]:
    chromium = await open_chromium(server, write_microphone(tmp_path / "mic.wav", chatter(30), pad_s=0))
    await chromium.context.add_init_script(PROMPT_JS)
    await chromium.context.clock.install()
    talk = TalkPage(await chromium.open())
    return talk, Requests(talk.page)


async def look_away(talk: TalkPage, server: ServerProcess, requests: Requests) -> None:
    """Start, and two minutes on the page's clock without an answer; nothing is on the server meanwhile."""
    before = requests.offers
    await talk.call.click()
    await talk.wait_state("asking")
    await talk.page.clock.fast_forward(LOOKS_AWAY_MS)
    await asyncio.sleep(0.5)  # whatever these minutes have set off is done by then
    await talk.wait_state("asking")
    await expect(talk.page.locator("#hint")).to_contain_text("Your browser asks for the microphone")
    await expect(talk.error).to_be_empty()
    assert requests.offers == before
    assert await server.slots_in_use() == 0
    assert await server.metric('rtc_sessions{state="connecting"}') == 0
    assert await talk.page.evaluate("prompts.length") == 1, "it is asked once"


async def test_a_microphone_that_is_allowed_after_two_minutes_makes_the_call(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    talk, requests = await opened(shared_echo, open_chromium, tmp_path)
    await look_away(talk, shared_echo, requests)
    asked = len(requests.made)
    await talk.page.evaluate("prompts.at(-1).allow()")
    await talk.wait_live()
    assert requests.made[asked:].count("GET config") >= 1, "credentials for TURN would be two minutes old"
    assert requests.offers == 1 and await shared_echo.slots_in_use() == 1
    await wait_heard(talk.page, sound=True)
    await expect(talk.page.locator("#timer")).to_have_text(re.compile(r"^0?0:[0-4]\d$"))
    assert not await talk.page.locator("audio").evaluate("({ paused }) => paused")
    await expect(talk.error).to_be_empty()
    await talk.end()


async def test_who_gives_up_waiting_for_the_prompt_has_no_open_microphone_when_it_is_answered_later(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    talk, requests = await opened(shared_echo, open_chromium, tmp_path)
    await look_away(talk, shared_echo, requests)
    await talk.end()
    await talk.page.evaluate("prompts.at(-1).allow()")
    await talk.page.wait_for_function("ear.microphones.at(-1)?.readyState === 'ended'", polling=100)
    assert requests.offers == 0 and await shared_echo.slots_in_use() == 0

    await talk.call.click()
    await talk.wait_state("asking")
    await talk.page.evaluate("prompts.at(-1).close()")
    await talk.expect_error("The microphone is blocked")
    await talk.call.click()
    await talk.wait_state("asking")
    await talk.page.evaluate("prompts.at(-1).allow()")
    await talk.wait_live()
    await talk.end()
