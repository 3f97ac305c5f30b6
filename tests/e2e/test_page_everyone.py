"""The page is for everyone: by keyboard alone, for screen readers, without motion, from right to left, soon there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.e2e.chromium import Chromium
from tests.e2e.conftest import OpenChromium
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speech import chatter, clearly, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

AXE = Path(__file__).parents[1] / "static" / "node_modules" / "axe-core" / "axe.min.js"
MOST_WIRE_BYTES = 150_000
SAMPLING = {
    "audio_temperature": {"default": 0.8, "min": 0.0, "max": 2.0},
    "audio_top_k": {"default": 250, "min": 0, "max": 2048},
    "text_temperature": {"default": 0.7, "min": 0.0, "max": 2.0},
    "text_top_k": {"default": 25, "min": 0, "max": 2048},
}

AUDIT_JS = """async () => {
    const { violations, incomplete, passes } = await axe.run(document, { resultTypes: ['violations'] });
    if (passes.length < 15) return ['too little was looked at'];
    const unsure = incomplete.filter(({ id }) => id !== 'color-contrast'); // over gradients and blended discs
    return [...violations, ...unsure].flatMap(({ id, nodes }) =>
        nodes.map(({ target, any, all, none }) => `${id} at ${target}: ${[...any, ...all, ...none][0]?.message}`));
}"""

FOCUSED_JS = """() => {
    const element = document.activeElement;
    if (element === document.body) return 'nothing';
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    if (outlineStyle === 'none' || parseFloat(outlineWidth) < 2) return `nobody sees ${element.outerHTML}`;
    if (element.localName === 'summary') return `${element.parentElement.id} summary`;
    return element.id || element.dataset.testid || element.className || element.textContent;
}"""

ARABIC_JS = """
import en from './en.js';
const latin = 'abcdefghijklmnopqrstuvwxyz';
const arabic = 'ابتثجحخدذرزسشصضطظعغفقكلمنه';
const translate = (value) => {
    if (typeof value === 'string') return value.toLowerCase().replace(/[a-z]/g, (it) => arabic[latin.indexOf(it)]);
    if (typeof value === 'function') return (...given) => translate(value(...given));
    if (Array.isArray(value)) return value.map(translate);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, translate(inner)]));
};
export default { ...translate(en), direction: 'rtl' };
"""

LATIN_JS = """() => {
    const foreign = '#engine, #persona-note, #persona, select, .turn-words, .brand, kbd';
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode())
        if (/[a-z]{2}/i.test(node.data) && !node.parentElement.closest(`noscript, ${foreign}`)) found.push(node.data);
    for (const element of document.querySelectorAll(':is([aria-label], [title]):not(#engine *)'))
        for (const name of ['aria-label', 'title'])
            if (/[a-z]{2}/i.test(element.getAttribute(name) ?? '')) found.push(element.getAttribute(name));
    return found;
}"""

OUTSIDE_JS = """() => [...document.querySelectorAll('button, select, textarea, summary, canvas, .turn, #status')]
    .filter((element) => element.checkVisibility())
    .map((element) => [element.id || element.className || element.textContent, element.getBoundingClientRect()])
    .filter(([, { left, right }]) => left < -0.5 || right > innerWidth + 0.5)
    .map(([name]) => name)"""


async def ready(chromium: Chromium, path: str = "/") -> TalkPage:
    talk = TalkPage(await chromium.open(path))
    await talk.page.wait_for_selector('#engine:not([data-health="unknown"])')
    return talk


async def with_sampling(route: Route) -> None:
    """The answer of an engine that samples."""
    answer = await route.fetch()
    config = await answer.json()
    config["engine"]["sampling"] = SAMPLING
    await route.fulfill(response=answer, json=config)


class Auditor:
    """axe-core, run in both schemes. Its text is evaluated, not added to the page, whose policy would forbid that."""

    def __init__(self, page: Page) -> None:
        if not AXE.is_file():
            if os.environ.get("CI"):
                pytest.fail("axe-core is missing: npm ci --prefix tests/static")
            pytest.skip("no axe-core here: npm ci --prefix tests/static")
        self._page = page
        self._text = AXE.read_text()

    async def finds_nothing(self, state: str) -> None:
        if not await self._page.evaluate("'axe' in window"):
            await self._page.evaluate(self._text)
        for scheme in ("light", "dark"):
            await self._page.emulate_media(
                color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce"
            )
            found = await self._page.evaluate(AUDIT_JS)
            assert found == [], f"{state}, {scheme}: {found}"


async def test_an_audit_finds_nothing_before_and_in_a_call(
    shared_cascade: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(2), clearly("Thank you. What time is it?"), silence(5))
    chromium = await open_chromium(shared_cascade, microphone)
    await chromium.context.route("**/v1/config", with_sampling)
    talk = await ready(chromium)
    page, audit = talk.page, Auditor(talk.page)
    await audit.finds_nothing("ready")
    await page.locator("#advanced summary").click()
    await page.get_by_label("Seed").fill("a few")
    await audit.finds_nothing("advanced settings")
    await page.get_by_label("Seed").fill("")
    await page.locator("#selftest-open").click()
    await expect(page.get_by_test_id("check-speaker")).to_contain_text("Did you hear two notes?")
    await audit.finds_nothing("self-test")
    await page.keyboard.press("Escape")
    await talk.start()
    await talk.wait_said("agent", r"demo", 20)
    await page.locator("#latency summary").click()
    await expect(page.locator("#latency-parts div").first).to_be_visible()
    await audit.finds_nothing("in a call")
    await talk.mute.click()
    await audit.finds_nothing("muted")
    await page.set_viewport_size({"width": 360, "height": 740})
    await page.locator("#latency summary").click()
    await audit.finds_nothing("in a call on a phone")
    await talk.end()
    await page.locator("#keep summary").click()
    await audit.finds_nothing("download menu")


async def test_an_audit_finds_nothing_in_an_error(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    talk = await ready(await open_chromium(shared_echo, microphone, allowed=False))
    await talk.call.click()
    await talk.expect_error("The microphone is blocked")
    await Auditor(talk.page).finds_nothing("error")


async def tabbed(page: Page, presses: int) -> list[str]:
    found: list[str] = []
    for _ in range(presses):
        await page.keyboard.press("Tab")
        found.append(await page.evaluate(FOCUSED_JS))
    return found


async def test_the_keyboard_alone_reaches_and_works_everything(
    shared_cascade: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1), clearly("Thank you. What time is it?"), silence(5))
    talk = await ready(await open_chromium(shared_cascade, microphone))
    page, press = talk.page, talk.page.keyboard.press
    devices = ["call", "microphone", "speaker", "selftest-open"]
    settings = ["settings summary", *["chip"] * 4, "persona", "voice-sample", "link-copy"]
    assert await tabbed(page, 14) == [*devices, *settings, "record", "transcript"]

    # A dialog keeps the focus, ends by Escape, and gives it back.
    await page.locator("#selftest-open").focus()
    await press("Enter")
    await expect(page.locator("#selftest")).to_be_visible()
    assert await page.evaluate("document.querySelector('#selftest').contains(document.activeElement)")
    await press("Escape")
    await expect(page.locator("#selftest")).to_be_hidden()
    assert await page.evaluate(FOCUSED_JS) == "selftest-open"

    # Settings fold and unfold, and a preset fills the persona.
    await press("Tab")
    await press("Enter")
    await expect(talk.persona).to_be_hidden()
    await press("Enter")
    await press("Tab")
    await press("Enter")
    await expect(talk.persona).not_to_have_value("")

    # A whole call, and what is kept of it.
    await page.locator("#call").focus()
    await press("Enter")
    await talk.wait_live()
    assert await page.evaluate(FOCUSED_JS) == "call"
    await talk.wait_said("agent", "demo", 20)
    assert await tabbed(page, 4) == ["mute", "microphone", "speaker", "latency summary"]
    await press("Enter")
    assert await tabbed(page, 5) == ["diagnostics-copy", "settings summary", "record", "keep summary", "transcript"]
    await page.locator("#mute").focus()
    await press("Enter")
    await expect(talk.mute).to_have_attribute("aria-pressed", "true")
    await press("Shift+Tab")
    assert await page.evaluate(FOCUSED_JS) == "call"
    await press("Enter")
    await talk.wait_state("ended")
    await page.locator("#keep summary").focus()
    await press("Enter")
    assert await tabbed(page, 1) == ["keep-text"]
    await press("Escape")
    await expect(page.get_by_test_id("keep-text")).to_be_hidden()
    assert await page.evaluate(FOCUSED_JS) == "keep summary"


async def test_a_key_that_is_held_presses_once(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(30), pad_s=0)
    talk = await ready(await open_chromium(shared_echo, microphone))
    keyboard = talk.page.keyboard

    async def hold(button: str) -> None:
        await talk.page.locator(button).focus()
        for _ in range(4):  # the first press, and three that repeat it
            await keyboard.down("Enter")
        await keyboard.up("Enter")

    await hold("#call")
    await talk.wait_live()
    await hold("#mute")
    await expect(talk.mute).to_have_attribute("aria-pressed", "true")
    await expect(talk.status).to_have_text("Muted")
    await hold("#settings > summary")
    await expect(talk.persona).to_be_visible()
    await hold("#call")
    await talk.wait_state("ended")


async def test_nothing_moves_for_who_wants_no_motion(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(30), pad_s=0)
    talk = await ready(await open_chromium(shared_echo, microphone))
    running = "document.getAnimations().filter(({ playState }) => playState === 'running').length"
    assert await talk.page.evaluate(running) > 0, "others see the voices breathe"
    await talk.page.emulate_media(reduced_motion="reduce")
    assert await talk.page.evaluate(running) == 0
    await talk.page.locator("#record").click()
    await talk.start()
    await talk.page.wait_for_selector("#transcript .turn.user")
    assert await talk.page.evaluate(running) == 0
    await talk.end()


async def test_the_page_runs_from_right_to_left_in_such_a_language(
    shared_cascade: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    """Arabic letters in place of the Latin ones: what stays Latin comes from no strings file."""
    microphone = write_microphone(
        tmp_path / "mic.wav", silence(0.5), clearly("Thank you. What time is it?"), silence(5)
    )
    chromium = await open_chromium(shared_cascade, microphone)
    await chromium.context.route(
        "**/strings/languages.js",
        lambda route: route.fulfill(
            content_type="text/javascript", body="export const LANGUAGES = { en: 'English', ar: 'Arabic' };"
        ),
    )
    await chromium.context.route(
        "**/strings/ar.js", lambda route: route.fulfill(content_type="text/javascript", body=ARABIC_JS)
    )
    await chromium.context.route("**/v1/config", with_sampling)
    talk = await ready(chromium, "/?lang=ar")
    page = talk.page
    assert await page.evaluate("[document.documentElement.lang, document.documentElement.dir]") == ["ar", "rtl"]
    await page.set_viewport_size({"width": 1440, "height": 900})
    place = {
        name: await box(page, f"{name}") for name in (".brand", "#engine", "#stage", ".panel", "#voice", "#record")
    }
    assert place[".panel"]["x"] < place["#stage"]["x"] and place["#engine"]["x"] < place[".brand"]["x"]
    assert place["#record"]["x"] < place["#voice"]["x"]
    await page.locator("#advanced summary").click()
    await fits_and_speaks_one_language(page, "ready")
    for persona, direction in (("You are Ada.", "ltr"), ("أنت ليلى", "rtl")):
        await talk.persona.fill(persona)
        assert await talk.persona.evaluate("(element, direction) => element.matches(`:dir(${direction})`)", direction)
    await talk.start()
    await talk.wait_said("user", "time is it", 20)
    await talk.wait_said("agent", r"it is \d+", 20)
    user, agent = await box(page, ".turn.user .turn-words"), await box(page, ".turn.agent .turn-words")
    assert user["x"] < agent["x"], "the caller's words are on the other side"
    assert await page.locator(".turn.agent .turn-words").first.evaluate("(words) => words.matches(':dir(ltr)')")
    await page.locator("#latency summary").click()
    await fits_and_speaks_one_language(page, "in a call")
    await talk.end()
    await page.locator("#keep summary").click()
    await fits_and_speaks_one_language(page, "ended")


async def box(page: Page, selector: str) -> dict[str, Any]:
    found = await page.locator(selector).first.bounding_box()
    assert found is not None, selector
    return dict(found)


async def fits_and_speaks_one_language(page: Page, state: str) -> None:
    assert await page.evaluate(LATIN_JS) == [], state
    for width, height in ((320, 640), (768, 1024), (1440, 900)):
        await page.set_viewport_size({"width": width, "height": height})
        await page.wait_for_timeout(150)
        if directory := os.environ.get("RTC_ARTIFACTS"):
            name = f"rtl-{state.replace(' ', '-')}-{width}.png"
            await page.screenshot(path=Path(directory) / name, animations="disabled")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (state, width)
        assert await page.evaluate(OUTSIDE_JS) == [], (state, width)


async def test_the_page_loads_in_under_150_kb_and_can_be_installed(
    shared_echo: ServerProcess, open_chromium: OpenChromium
) -> None:
    chromium = await open_chromium(shared_echo)
    page = await chromium.context.new_page()
    devtools = await chromium.context.new_cdp_session(page)
    wire_bytes: list[float] = []
    devtools.on("Network.loadingFinished", lambda event: wire_bytes.append(event["encodedDataLength"]))
    await devtools.send("Network.enable")
    await page.goto(chromium.url, wait_until="networkidle")
    await page.wait_for_selector('#engine:not([data-health="unknown"])')
    assert len(wire_bytes) > 50 and 50_000 < sum(wire_bytes) < MOST_WIRE_BYTES
    asked = await page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    files = [name for name in asked if name.endswith((".js", ".css"))]
    assert sorted(files) == sorted(set(files)), "nothing is asked for twice"
    manifest = await devtools.send("Page.getAppManifest")
    assert manifest["errors"] == [] and '"display": "standalone"' in manifest["data"]
    assert (await devtools.send("Page.getInstallabilityErrors"))["installabilityErrors"] == []
