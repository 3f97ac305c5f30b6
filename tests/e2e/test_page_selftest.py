"""Before a call, the page says whether microphone, network and speaker work, and leaves nothing open behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenChromium, OpenFirefox
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speech import chatter, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]


async def test_all_is_well_and_no_slot_is_taken(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1), chatter(30), pad_s=0)
    talk = TalkPage(await (await open_chromium(shared_echo, microphone)).open())
    await talk.page.get_by_role("button", name="Test sound and network").click()
    network = talk.page.get_by_test_id("check-network")
    await expect(network).to_contain_text("gets through directly (UDP")
    await expect(network).to_have_attribute("data-verdict", "good")
    await expect(talk.page.get_by_test_id("check-microphone")).to_contain_text("Works.")
    speaker = talk.page.get_by_test_id("check-speaker")
    await expect(speaker).to_contain_text("Did you hear two notes?")
    assert await shared_echo.slots_in_use() == 0
    await speaker.get_by_role("button", name="No", exact=True).click()
    await expect(speaker).to_contain_text("Turn the volume up")
    await speaker.get_by_role("button", name="Play again").click()
    await speaker.get_by_role("button", name="Yes").click()
    await expect(speaker).to_have_attribute("data-verdict", "good")
    await talk.page.keyboard.press("Escape")
    await expect(talk.page.locator("#selftest")).to_be_hidden()
    await talk.start()
    await expect(talk.page.get_by_role("button", name="Test sound and network")).to_be_hidden()
    await talk.end()


async def test_what_does_not_work_says_what_to_do(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    chromium = await open_chromium(shared_echo, microphone, allowed=False)
    talk = TalkPage(await chromium.open())
    chromium.expected_errors += ["status of 503", "Failed to load resource"]
    await talk.page.route(
        "**/v1/connectivity", lambda route: route.fulfill(status=503, json={"code": "engine_draining"})
    )
    await talk.page.get_by_role("button", name="Test sound and network").click()
    await expect(talk.page.get_by_test_id("check-microphone")).to_contain_text("The microphone is blocked")
    await expect(talk.page.get_by_test_id("check-network")).to_contain_text("The server is going down")


async def test_in_firefox_the_network_is_tested_too(shared_echo: ServerProcess, open_firefox: OpenFirefox) -> None:
    firefox = await open_firefox()
    await firefox.open(shared_echo.url)
    await firefox.click("#selftest-open")
    await firefox.wait_until(
        "document.querySelector('[data-testid=check-network]').textContent.includes('gets through directly')"
    )
