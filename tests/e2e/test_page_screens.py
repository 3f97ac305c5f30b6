"""The page at the widths of a phone, a tablet and a desktop, dark and light: nothing overflows, nothing is missing.

Screenshots, dark ones too, are made for people to look at: into the directory that RTC_ARTIFACTS names, if it does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Page, expect

from tests.e2e.chromium import Chromium
from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speaking import say, speak_at, take_microphone
from tests.e2e.speech import clearly, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

SIZES = {
    "320": (320, 640),
    "phone": (360, 740),
    "sideways": (740, 360),
    "768": (768, 1024),
    "laptop": (1280, 720),
    "1440": (1440, 900),
}
WHOLE = ("laptop", "1440")
"""Where nothing needs to be scrolled to."""
PHONES = {"320": (320, 640), "360": (360, 740), "390": (390, 664), "430": (430, 932)}
DARK_TOO = ("320", "768", "1440")
LEAST_TARGET_PX = 40
LEAST_LINES = 5
"""Of the transcript in a call; fewer where a message takes their room, or on a phone that lies on its side."""

LAYOUT = """async () => {
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    const box = (selector) => {
        const element = document.querySelector(selector);
        if (!element || !element.checkVisibility()) return null;
        const { left, top, width, height } = element.getBoundingClientRect();
        return { left, top, width, height };
    };
    return {
        pageWidth: document.documentElement.scrollWidth, innerWidth, innerHeight,
        call: box('#call'), mute: box('#mute'), status: box('#status'), engine: box('#engine'),
        transcript: box('#transcript'), persona: box('#persona'), voice: box('#voice'), error: box('#error'),
        devices: box('#devices'), latency: box('#latency'), link: box('#link-copy'), record: box('#record'),
        cutOff: ['html', '#stage', '#settings'].filter((selector) => {
            const { scrollHeight, clientHeight } = document.querySelector(selector);
            return scrollHeight > clientHeight + 1;
        }),
        lines: document.querySelector('#transcript').clientHeight /
            parseFloat(getComputedStyle(document.querySelector('.agent .turn-words') ?? document.body).lineHeight),
    };
}"""


async def shoot(page: Page, name: str, schemes: tuple[Literal["light", "dark"], ...]) -> None:
    if not (directory := os.environ.get("RTC_ARTIFACTS")):
        return
    for scheme in schemes:
        await page.emulate_media(color_scheme=scheme)
        await page.wait_for_timeout(200)
        await page.screenshot(path=Path(directory) / f"{name}-{scheme}.png", animations="disabled")  # makes the folder


async def check_and_shoot(page: Page, state: str, visible: tuple[str, ...]) -> None:
    """All sizes of the page as it is now."""
    for size, (width, height) in SIZES.items():
        await page.set_viewport_size({"width": width, "height": height})
        await shoot(page, f"{state}-{size}", ("light", "dark") if size in DARK_TOO else ("light",))
        layout = await page.evaluate(LAYOUT)
        assert layout["pageWidth"] <= layout["innerWidth"], f"{state}, {size}: the page is wider than its window"
        for name in visible:
            box = layout[name]
            assert box is not None and box["width"] > 0 and box["height"] > 0, f"{state}, {size}: no #{name}"
            inside = box["left"] >= 0 and box["left"] + box["width"] <= width
            assert inside, f"{state}, {size}: #{name} lies outside: {box}"
        button = layout["call"]
        assert min(button["width"], button["height"]) >= LEAST_TARGET_PX, f"{state}, {size}: #call is too small"
        on_screen = button["top"] >= 0 and button["top"] + button["height"] <= height
        assert on_screen, f"{state}, {size}: #call can be reached only by scrolling: {button}"
        if size in WHOLE:
            assert layout["cutOff"] == [], f"{state}, {size}: something can be reached only by scrolling"
        if "mute" in visible:
            least = LEAST_LINES - 2 * (size == "sideways" or layout["error"] is not None)
            assert layout["lines"] >= least, f"{state}, {size}: no room for words: {layout}"


async def opened(chromium: Chromium) -> TalkPage:
    talk = TalkPage(await chromium.open())
    await talk.page.wait_for_selector('#engine:not([data-health="unknown"])')
    return talk


async def test_the_page_fits_before_and_in_a_call(
    shared_cascade: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    talk = await opened(await open_chromium(shared_cascade, microphone))
    controls = ("call", "status", "engine")
    await check_and_shoot(talk.page, "ready", (*controls, "persona", "voice", "devices", "link", "record"))
    await take_microphone(talk.page)
    await talk.start()
    await talk.wait_said("agent", "interrupt me", 20)
    await say(talk, clearly("Tell me a long story about the sea."), "story")
    await speak_at(talk.page, "small", clearly("Excuse me but would you please stop talking now."))
    await talk.wait_cut("once upon a time", 20)
    await check_and_shoot(talk.page, "call", (*controls, "mute", "transcript", "devices", "latency"))
    await talk.mute.click()
    await check_and_shoot(talk.page, "muted", (*controls, "mute", "transcript"))
    await figures_fit(talk.page)
    await talk.mute.click()
    await figures_fit(talk.page)
    await talk.end()
    await words_come_first(talk.page)
    await talk.page.locator("#keep summary").click()
    await check_and_shoot(talk.page, "ended", (*controls, "transcript"))


FIGURES_JS = """async () => {
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    const seen = (element) => element.checkVisibility() && getComputedStyle(element).visibility === 'visible';
    const parts = [...document.querySelectorAll('#latency :is(summary, dt, dd, button)')].filter(seen);
    const fixed = document.querySelector('#call').getBoundingClientRect();
    const floor = getComputedStyle(document.querySelector('.controls')).position === 'fixed' ? fixed.top : innerHeight;
    const outside = parts.filter((element) => {
        const { left, right, top, bottom } = element.getBoundingClientRect();
        return left < 0 || right > innerWidth || top < 0 || bottom > floor;
    });
    const scrolled = [document.documentElement, ...document.querySelectorAll('.stage, .stage *')].filter((element) => {
        const { overflowX, overflowY } = getComputedStyle(element);
        if (element !== document.documentElement && ![overflowX, overflowY].includes('auto')) return false;
        return element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
    });
    const name = (element) => element.id || element.textContent || element.localName;
    return { parts: parts.length, outside: outside.map(name), scrolled: scrolled.map(name) };
}"""


async def figures_fit(page: Page) -> None:
    """What is open under the mouth-to-ear figure is seen whole, on every screen."""
    summary = page.locator("#latency summary")
    await summary.click()
    await expect(page.locator("#latency-parts > div")).to_have_count(8)
    for size, (width, height) in {**SIZES, **PHONES}.items():
        await page.set_viewport_size({"width": width, "height": height})
        await shoot(page, f"figures-{size}", ("light",))
        found = await page.evaluate(FIGURES_JS)
        assert found == {"parts": 2 + 2 * (8 + 6), "outside": [], "scrolled": []}, (size, found)
    await summary.click()


async def words_come_first(page: Page) -> None:
    """On a phone, what was said in the call that has just ended is in sight, above the set-up of the next one."""
    tops = "['.transcript', '#settings'].map(name => document.querySelector(name).getBoundingClientRect().top)"
    for size, (width, height) in PHONES.items():
        await page.set_viewport_size({"width": width, "height": height})
        await page.evaluate("scrollTo(0, 0)")
        transcript, settings = await page.evaluate(tops)
        assert transcript < 0.8 * height and transcript < settings, (size, transcript, settings)
        await expect(page.locator("#keep summary")).to_be_in_viewport(ratio=1)
    await page.locator("#keep summary").focus()
    reached = []
    for _ in range(2):
        await page.keyboard.press("Tab")
        reached.append(await page.evaluate("document.activeElement.id || document.activeElement.parentElement.id"))
    assert reached == ["transcript", "settings"], "the keyboard goes where the eye goes"
    await page.evaluate("scrollTo(0, 0)")


async def test_the_page_fits_while_a_call_is_being_mended(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    server = await serve("echo", 1, "--resume-s", "60")
    microphone = write_microphone(tmp_path / "mic.wav", silence(1), clearly("Thank you. What time is it?"), silence(2))
    chromium = await open_chromium(server, microphone)
    talk = await opened(chromium)
    await talk.start()
    controls = ("call", "status", "engine", "mute", "transcript")
    await talk.page.evaluate("ear.microphones[0].dispatchEvent(new Event('mute'))")
    await talk.expect_error("The microphone is paused")
    await check_and_shoot(talk.page, "microphone", (*controls, "error"))
    await talk.page.evaluate("ear.microphones[0].dispatchEvent(new Event('unmute'))")
    await expect(talk.error).to_be_empty()

    await talk.page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")
    await talk.wait_state("reconnecting")
    await check_and_shoot(talk.page, "reconnecting", controls)

    await chromium.context.clear_permissions()  # the browser would have to ask
    await talk.page.reload()
    await expect(talk.call).to_have_text("Continue")
    await check_and_shoot(talk.page, "continue", ("call", "status", "engine"))
    await chromium.context.grant_permissions(["microphone"], origin=chromium.url)
    await talk.start()
    await talk.end()


async def test_the_page_fits_with_an_error(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "microphone.wav", silence(1))
    talk = await opened(await open_chromium(shared_echo, microphone, allowed=False))
    await talk.call.click()
    await talk.wait_state("failed")
    await check_and_shoot(talk.page, "error", ("call", "status", "engine", "error"))


async def test_zoomed_in_four_times_nothing_overflows(shared_echo: ServerProcess, open_chromium: OpenChromium) -> None:
    """What a person with weak eyes does on a screen of 1280 pixels: 320 are left (WCAG 2.2, 1.4.10)."""
    talk = await opened(await open_chromium(shared_echo))
    await talk.page.set_viewport_size({"width": 320, "height": 256})
    layout = await talk.page.evaluate(LAYOUT)
    assert layout["pageWidth"] <= layout["innerWidth"]
