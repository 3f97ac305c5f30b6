"""A call that breaks and is made again, or is taken up by the page after it: nothing that the person had is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.page import TalkPage
from tests.e2e.speech import chatter, silence, write_microphone
from tests.e2e.test_page_keeping import download
from tests.e2e.test_page_messages import open_to_be_told, say

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

BUSY_ONCE_JS = """if (navigator.mediaDevices) {
    const devices = navigator.mediaDevices, ask = devices.getUserMedia.bind(devices);
    let asked = 0;
    devices.getUserMedia = async (constraints) => {
        if (!asked++) throw new DOMException('Device in use', 'NotReadableError');
        return ask(constraints);
    };
}"""


@pytest.fixture
def microphone(tmp_path: Path) -> Path:
    return write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(1.5), silence(2), chatter(60), pad_s=0)


async def test_a_call_that_is_made_again_stays_muted_and_keeps_words_and_recording(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 3, "--resume-s", "1")
    chromium = await open_chromium(server, microphone)
    talk = await open_to_be_told(chromium)
    recordings = talk.page.get_by_test_id("keep-recording")
    await talk.page.locator("#record").click()
    await talk.start()
    await talk.page.wait_for_selector("#transcript .turn.user:not(.speaking)", state="attached")
    await talk.page.evaluate("window.firstTurn = document.querySelector('#transcript .turn')")
    await talk.mute.click()

    await say(talk, {"type": "session.ended", "reason": "server_stopping"})
    await talk.wait_state("ended")
    await expect(recordings).to_have_count(1)
    await talk.wait_live()
    await talk.expect_error("This is a new conversation")
    await expect(talk.mute).to_have_attribute("aria-pressed", "true")
    assert await talk.page.evaluate("[rtc.client.muted, ear.microphones.at(-1).enabled]") == [True, False]
    assert await talk.page.evaluate("firstTurn.isConnected")
    await expect(talk.page.locator("#record")).to_have_attribute("aria-pressed", "true")
    await talk.end()
    await expect(recordings).to_have_count(2)
    await expect(talk.page.locator("#record")).to_have_attribute("aria-pressed", "false")

    await talk.start()
    await expect(talk.mute).to_have_attribute("aria-pressed", "false")
    assert await talk.page.evaluate("[rtc.client.muted, firstTurn.isConnected]") == [False, False]
    await expect(recordings).to_have_count(2)  # nobody has saved them
    await talk.end()


async def test_nobody_is_called_while_at_work_on_what_a_call_takes_away(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 2, "--resume-s", "1")
    chromium = await open_chromium(server, microphone)
    talk = await open_to_be_told(chromium)
    await talk.start()
    await say(talk, {"type": "session.ended", "reason": "server_stopping"})
    await talk.wait_state("ended")
    await talk.page.locator("#settings").evaluate("settings => { settings.open = true; }")
    await talk.persona.focus()
    await talk.expect_error("The server is back")
    await talk.page.keyboard.type("mmm")
    await expect(talk.persona).to_have_value("mmm")
    await talk.page.locator("#selftest-open").click()
    await talk.page.wait_for_timeout(4_000)  # it asks every two seconds
    assert await talk.page.evaluate("[rtc.state, document.querySelector('#selftest').open]") == ["ended", True]
    await talk.page.keyboard.press("Escape")
    await talk.wait_live()
    await talk.end()


async def test_a_busy_microphone_does_not_lose_the_call_of_the_page_before(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 1, "--resume-s", "60")
    talk = TalkPage(await (await open_chromium(server, microphone)).open())
    await talk.start()
    session = await talk.page.evaluate("rtc.client.sessionId")
    await talk.page.add_init_script(BUSY_ONCE_JS)
    for _ in range(2):  # the second page leaves what it could not take up to the third
        await talk.page.reload()
        await talk.wait_state("failed")
        await talk.expect_error("The microphone is in use")
        await expect(talk.call).to_have_text("Continue")
    await talk.call.click()
    await talk.wait_live()
    assert await talk.page.evaluate("rtc.client.sessionId") == session
    assert await server.slots_in_use() == 1
    await talk.end()
    await expect(talk.call).to_have_text("Start talking")


async def test_what_was_said_before_a_reload_can_be_taken_along_after_it(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    server = await serve("cascade", 1, "--resume-s", "60")
    microphone = write_microphone(tmp_path / "mic.wav", silence(5))
    talk = TalkPage(await (await open_chromium(server, microphone)).open())
    await talk.start()
    await talk.wait_said("agent", "demo", 30)
    await talk.page.reload()
    await talk.wait_live()
    said = await talk.said("agent")
    await talk.end()
    call = json.loads((await download(talk, "json", tmp_path)).read_text())
    greeting = call["turns"][0]
    assert "demo" in greeting["text"].lower() and "demo" in said
    assert 0 < greeting["words"][0]["at_ms"] < 60_000 and greeting["words"][0]["at_ms"] == greeting["start_ms"]
    assert "demo" in (await download(talk, "text", tmp_path)).read_text().lower()


async def test_what_was_counted_before_a_reload_counts_after_it(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    talk = TalkPage(await (await open_chromium(await serve("echo", 1, "--resume-s", "60"), microphone)).open())
    await talk.start()
    counts = talk.page.locator("#timeline-counts")
    await expect(counts).to_have_text(re.compile(r"^[1-9]\d* overlap"), timeout=20_000)
    before = await counts.inner_text()
    await talk.page.reload()
    await talk.wait_live()
    after = await counts.inner_text()
    assert [int(count) for count in re.findall(r"\d+", after)] >= [int(count) for count in re.findall(r"\d+", before)]
    await talk.end()


async def test_a_double_click_makes_a_call_and_does_not_end_it(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    talk = TalkPage(await (await open_chromium(await serve("echo", 1), microphone)).open())
    await talk.call.dblclick()
    await talk.wait_live()
    await talk.end()
