"""The page in Chromium, as a person uses it, with the echo engine: the controls, the reload, and every trouble."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.listen import heard_by, share_of, wait_heard
from tests.e2e.page import TalkPage
from tests.e2e.speech import chatter, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

MOST_LOST = 0.02
"""On loopback, where only a machine that is too busy loses a packet."""
REFUSED = "status of 503"
"""What Chromium logs when a server is full."""


@pytest_asyncio.fixture
async def microphone(tmp_path: Path) -> Path:
    """Somebody who talks and talks."""
    return write_microphone(tmp_path / "microphone.wav", silence(0.5), chatter(60), pad_s=0)


async def test_one_click_starts_the_call_and_its_sound(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 1)
    talk = TalkPage(await (await open_chromium(server, microphone)).open())
    # Nothing here may run a script before the click: Playwright's scripts count as gestures, and would let sound play.
    await talk.start()
    await asyncio.sleep(3)

    audio = await talk.page.locator("audio").evaluate(
        "({paused, muted, volume, currentTime}) => ({paused, muted, volume, currentTime})"
    )
    assert not audio["paused"] and not audio["muted"] and audio["volume"] == 1
    assert audio["currentTime"] > 0.5
    await wait_heard(talk.page, sound=True, since_s=0)
    assert await server.slots_in_use() == 1
    await expect(talk.page.locator("#latency")).to_contain_text(re.compile(r"\d+ ms"))
    stats = await talk.page.evaluate("ear.stats()")
    assert stats["inbound-rtp"]["packetsReceived"] > 50
    assert stats["inbound-rtp"]["packetsLost"] < MOST_LOST * stats["inbound-rtp"]["packetsReceived"]


async def test_mute_silences_the_user_and_nothing_else(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    talk = TalkPage(await (await open_chromium(await serve("echo", 1), microphone)).open())
    await talk.start()
    await wait_heard(talk.page, sound=True)
    await talk.mute.click()
    await expect(talk.mute).to_have_attribute("aria-pressed", "true")
    await wait_heard(talk.page, sound=False)
    await talk.wait_live()
    await talk.page.keyboard.press("m")
    await expect(talk.mute).to_have_attribute("aria-pressed", "false")
    await wait_heard(talk.page, sound=True)
    await talk.end()


async def test_a_call_can_be_ended_and_started_again_by_keyboard(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 1)
    talk = TalkPage(await (await open_chromium(server, microphone)).open())
    for calls, press in ((1, talk.call.click), (2, talk.press_call)):
        await press()
        await talk.wait_live()
        await talk.page.wait_for_selector("#transcript .turn.user", state="attached")
        await press()
        await talk.wait_state("ended")
        await server.wait_slots_in_use(0)
        assert await talk.page.evaluate("ear.microphones.map(track => track.readyState)") == ["ended"] * calls
        assert await talk.page.evaluate("ear.peers.map(peer => peer.signalingState)") == ["closed"] * calls
    await expect(talk.error).to_be_empty()


@pytest.mark.parametrize("way", ["close", "leave"])
async def test_a_page_that_goes_away_and_stays_away_frees_its_slot_and_the_next_one_can_call(
    way: str, serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 1, "--resume-s", "2")
    chromium = await open_chromium(server, microphone)
    talk = TalkPage(await chromium.open())
    await talk.start()
    await server.wait_slots_in_use(1)
    match way:
        case "close":
            async with talk.page.expect_event("close"):
                await talk.page.close(run_before_unload=True)  # as the cross on the tab does
        case "leave":
            await talk.page.goto("about:blank")
    await server.wait_slots_in_use(0)
    talk = TalkPage(await chromium.open())
    await talk.start()
    assert await server.slots_in_use() == 1
    await talk.end()


async def test_a_full_server_says_so_and_the_person_can_try_again(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 1)
    chromium = await open_chromium(server, microphone)
    chromium.expected_errors.append(REFUSED)
    first, second = TalkPage(await chromium.open()), TalkPage(await chromium.open())
    await first.start()
    await second.call.click()
    await second.expect_error("The agent is in another call. Try again in 5 seconds.")
    await second.wait_state("failed")
    await first.wait_live()

    await first.end()
    await server.wait_slots_in_use(0)
    await second.start()
    await expect(second.error).to_be_empty()
    await second.end()


async def test_a_refused_microphone_is_explained_and_takes_no_slot(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 1)
    talk = TalkPage(await (await open_chromium(server, microphone, allowed=False)).open())
    await talk.call.click()
    await talk.expect_error("The microphone is blocked")
    await talk.wait_state("failed")
    assert await server.slots_in_use() == 0
    assert "session created" not in server.log


async def test_a_missing_microphone_is_explained_and_takes_no_slot(serve: Serve, open_chromium: OpenChromium) -> None:
    server = await serve("echo", 1)
    talk = TalkPage(await (await open_chromium(server)).open())
    await talk.call.click()
    await talk.expect_error("No microphone found")
    assert "session created" not in server.log


async def test_a_page_without_https_explains_why_it_cannot_work(serve: Serve, open_chromium: OpenChromium) -> None:
    server = await serve("echo", 1, "--host", "0.0.0.0")
    (address, *_) = (await server.get("/v1/config"))[1]["connectivity"]["addresses"]
    url = f"http://[{address}]:{server.port}" if ":" in address else f"http://{address}:{server.port}"
    talk = TalkPage(await (await open_chromium(server, url=url, allowed=False)).open())
    await talk.expect_error("This page needs HTTPS")
    await talk.expect_error("--tls self-signed")


async def test_a_server_that_stops_is_told_to_the_person(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 1, "--drain-s", "2")
    chromium = await open_chromium(server, microphone)
    chromium.expected_errors.append("net::ERR_CONNECTION_REFUSED")
    talk = TalkPage(await chromium.open())
    await talk.start()
    assert await server.stop() == 0
    await talk.wait_state("ended")
    await talk.expect_error("The server goes down")


async def test_a_caller_without_a_microphone_listens(serve: Serve, open_chromium: OpenChromium) -> None:
    """`client.js` on its own, in a page without any permission: the agent speaks, nobody answers."""
    server = await serve("cascade", 1)
    page = await (await open_chromium(server, allowed=False)).open()
    await page.evaluate(
        """async () => {
            const { RtcClient } = await import('/client.js');
            window.caller = new RtcClient();
            caller.addEventListener('track', ({ detail }) => {
                document.querySelector('audio').srcObject = detail.stream;
            });
            await caller.connect({ microphone: null });
        }"""
    )
    async with asyncio.timeout(20):
        while share_of("I'm the demo voice. Ask me the time", (await heard_by(page)).words()) <= 0.5:
            await asyncio.sleep(1)
    await page.evaluate("caller.close()")
    await server.wait_slots_in_use(0)
