"""Whoever works the page by keyboard keeps a place on it, whatever a call takes away; notices go with their call."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.page import TalkPage
from tests.e2e.speech import chatter, silence, write_microphone
from tests.e2e.test_page_everyone import FOCUSED_JS
from tests.e2e.test_page_messages import open_to_be_told, say

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]


async def talking(serve: Serve, open_chromium: OpenChromium, tmp_path: Path) -> TalkPage:
    """In a call that was started by keyboard."""
    microphone = write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(30), pad_s=0)
    # The server has not really ended the calls that are said to be over, and keeps each for a moment.
    chromium = await open_chromium(await serve("echo", 4, "--resume-s", "1"), microphone)
    talk = await open_to_be_told(chromium)
    await talk.press_call()
    await talk.wait_live()
    return talk


async def is_on(talk: TalkPage, element: str) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    while (focused := await talk.page.evaluate(FOCUSED_JS)) != element:
        assert asyncio.get_running_loop().time() < deadline, f"the keyboard is on {focused}, not on {element}"
        await asyncio.sleep(0.1)


async def test_the_keyboard_has_a_place_when_what_had_it_goes_away(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    talk = await talking(serve, open_chromium, tmp_path)
    press = talk.page.keyboard.press
    await press("Tab")
    await is_on(talk, "mute")
    await say(talk, {"type": "session.ended", "reason": "time_limit"})
    await is_on(talk, "call")

    await talk.page.locator("#keep summary").focus()
    await press("Enter")
    await press("Tab")
    async with talk.page.expect_download():
        await press("Enter")
    await is_on(talk, "keep summary")

    await talk.press_call()
    await talk.wait_live()
    await say(talk, {"type": "session.ended", "reason": "server_stopping"})
    await talk.page.get_by_role("button", name="Don’t call again").focus()
    await press("Enter")
    await is_on(talk, "call")

    await talk.press_call()
    await talk.wait_live()
    await talk.page.evaluate("ear.microphones.at(-1).dispatchEvent(new Event('mute'))")
    await talk.page.get_by_role("button", name="Use the microphone").focus()
    await press("Enter")
    await is_on(talk, "mute")
    await talk.end()


async def test_what_is_said_of_a_call_goes_with_it(serve: Serve, open_chromium: OpenChromium, tmp_path: Path) -> None:
    talk = await talking(serve, open_chromium, tmp_path)
    await say(talk, {"type": "session.ending", "in_s": 3, "reason": "time_limit"})
    await talk.expect_error("This call is about to end")
    await say(talk, {"type": "session.ended", "reason": "time_limit"})
    await talk.wait_state("ended")
    await expect(talk.error).to_be_empty()
    await expect(talk.page.locator("#hint")).to_be_visible()
    await expect(talk.page.locator("#hint")).to_contain_text("The server allows calls of this length")

    await talk.start()
    await talk.page.evaluate("ear.microphones.at(-1).dispatchEvent(new Event('mute'))")
    await talk.expect_error("The microphone is paused")
    await talk.end()
    await expect(talk.error).to_be_empty()
