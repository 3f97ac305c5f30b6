"""The set-up of a call on the page: persona, voice with a sample, seed and sampling, and a link that brings it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.async_api import Request, Route, expect

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speech import chatter, silence, write_microphone
from tests.engine.personaplex.tiny import tiny_checkpoint

PERSONA = "hi & é"
"""The engine of the test takes few tokens; these need care in an address."""

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]


async def test_a_link_reproduces_a_set_up(serve: Serve, open_chromium: OpenChromium, tmp_path: Path) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(30), pad_s=0)
    flags = ("--model", str(tiny_checkpoint(tmp_path / "tiny")), "--device", "cpu", "--threads", "1")
    chromium = await open_chromium(await serve("personaplex", 1, *flags), microphone)
    talk = TalkPage(await chromium.open())
    await talk.persona.fill(PERSONA)
    await expect(talk.voice).to_be_enabled()
    await talk.voice.select_option("BASS")
    await talk.page.locator("#advanced summary").click()
    seed, top_k = talk.page.get_by_label("Seed"), talk.page.get_by_label("Top-k of the words")
    await seed.fill("4711")
    await top_k.fill("a few")
    await expect(talk.page.locator("#advanced-text_top_k-problem")).to_contain_text("A whole number from")
    await expect(top_k).to_have_attribute("aria-invalid", "true")
    await top_k.fill("12")
    await expect(talk.page.locator("#advanced-text_top_k-problem")).to_be_empty()
    await talk.page.get_by_label("Temperature of the voice").fill("0.5")
    await chromium.context.grant_permissions(["microphone", "clipboard-read", "clipboard-write"], origin=chromium.url)
    await talk.page.get_by_role("button", name="Copy a link to this set-up").click()
    await expect(talk.page.locator("#link-told")).to_contain_text("Copied")
    link = await talk.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(chromium.url + "/#")

    await talk.page.evaluate("localStorage.clear()")
    await talk.page.goto("about:blank")
    offers: list[Request] = []
    talk.page.on("request", lambda request: offers.append(request) if request.method == "POST" else None)
    await talk.page.goto(link)
    await expect(talk.persona).to_have_value(PERSONA)
    await expect(talk.voice).to_have_value("BASS")
    await expect(talk.page.get_by_label("Seed")).to_be_visible()
    await talk.start()
    offer = json.loads(offers[0].post_data or "{}")
    assert offer["persona"] == PERSONA and offer["voice"] == "BASS" and offer["seed"] == 4711
    assert offer["sampling"] == {"text_top_k": 12, "audio_temperature": 0.5}
    await expect(talk.persona).to_be_disabled()
    await talk.end()


async def test_a_voice_can_be_listened_to_before_a_call(
    shared_cascade: ServerProcess, open_chromium: OpenChromium
) -> None:
    talk = TalkPage(await (await open_chromium(shared_cascade)).open())
    listen = talk.page.get_by_test_id("voice-sample")
    await expect(listen).to_have_text("Listen")
    async with talk.page.expect_response(lambda response: "/sample" in response.url) as answering:
        await listen.click()
    answer = await answering.value
    assert answer.status == 200 and answer.headers["content-type"] == "audio/wav"
    await expect(listen).to_have_text("Stop")
    await listen.click()
    await expect(listen).to_have_text("Listen")
    await listen.click()
    await expect(listen).to_have_text("Stop")
    await expect(listen).to_have_text("Listen", timeout=10_000)  # by itself, at its end
    await expect(talk.error).to_be_empty()


async def test_an_engine_that_does_not_sample_offers_the_seed_only(
    shared_echo: ServerProcess, open_chromium: OpenChromium
) -> None:
    talk = TalkPage(await (await open_chromium(shared_echo)).open("/#seed=7&text_top_k=9&persona=Ada"))
    await expect(talk.persona).to_have_value("Ada")
    await expect(talk.page.locator("#setup-told")).to_contain_text("does not sample")
    await expect(talk.page.get_by_label("Seed")).to_have_value("7")
    await expect(talk.page.get_by_label("Seed")).to_be_visible()
    await expect(talk.page.get_by_label("Top-k of the words")).to_be_hidden()
    await expect(talk.page.get_by_test_id("voice-sample")).to_be_hidden()


async def test_a_link_copied_on_a_later_visit_has_the_set_up_and_shows_its_beginning(
    shared_echo: ServerProcess, open_chromium: OpenChromium
) -> None:
    chromium = await open_chromium(shared_echo)
    talk = TalkPage(await chromium.open())
    await talk.persona.fill("Your name is Zoe. " * 20)
    await talk.page.goto("about:blank")
    await talk.page.goto(chromium.url + "/#debug=1")
    await expect(talk.persona).to_have_value("Your name is Zoe. " * 20)
    await talk.page.evaluate("void (navigator.clipboard.writeText = async () => { throw new Error('no'); })")
    await talk.page.get_by_role("button", name="Copy a link to this set-up").click()
    await expect(talk.page.locator("#link-told")).to_contain_text("copy the link below")
    link = talk.page.locator("#link-text")
    made = await link.input_value()
    assert made.startswith(f"{chromium.url}/#debug=1&persona=Your+name+is+Zoe.")
    seen = await link.evaluate(
        "({scrollLeft, selectionStart, selectionEnd}) => [scrollLeft, selectionStart, selectionEnd]"
    )
    assert seen == [0, 0, len(made)]


async def test_a_key_that_is_pasted_into_the_open_page_is_used_and_stands_in_no_link(
    shared_echo: ServerProcess, open_chromium: OpenChromium
) -> None:
    chromium = await open_chromium(shared_echo)
    talk = TalkPage(await chromium.open("/#persona=Ada"))
    await expect(talk.page.locator("#engine")).to_have_attribute("data-health", "free")
    bearer = "Bearer a-key-as-keys-are"
    async with talk.page.expect_request(lambda request: request.headers.get("authorization") == bearer):
        await talk.page.goto(chromium.url + "/#persona=Zoe&token=a-key-as-keys-are")
    await expect(talk.persona).to_have_value("Zoe")
    assert "key" not in talk.page.url
    await talk.page.evaluate("void (navigator.clipboard.writeText = async (text) => { window.copied = text; })")
    await talk.page.get_by_role("button", name="Copy a link to this set-up").click()
    copied = await talk.page.evaluate("copied")
    assert copied.startswith(f"{chromium.url}/#persona=Zoe") and "key" not in copied


async def test_a_voice_that_the_server_does_not_have_is_told_until_another_is_chosen(
    shared_echo: ServerProcess, open_chromium: OpenChromium
) -> None:
    chromium = await open_chromium(shared_echo)

    async def with_voices(route: Route) -> None:
        answer = await route.fetch()
        config = await answer.json()
        config["engine"] |= {"voices": ["NATF2", "BASS"], "default_voice": "NATF2"}
        await route.fulfill(response=answer, json=config)

    await chromium.context.route("**/v1/config", with_voices)
    talk = TalkPage(await chromium.open("/#voice=GONE1"))
    told = talk.page.locator("#setup-told")
    await expect(told).to_have_text("This server has no voice GONE1: NATF2 is used.")
    await expect(talk.voice).to_have_value("NATF2")
    async with talk.page.expect_response("**/v1/config"):
        await talk.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await expect(told).to_have_text("This server has no voice GONE1: NATF2 is used.")
    await talk.voice.select_option("BASS")
    await expect(told).to_be_empty()
    await talk.page.evaluate("location.hash = '#voice=GONE2'")
    await expect(told).to_have_text("This server has no voice GONE2: NATF2 is used.")


async def test_a_persona_that_is_too_long_is_counted_as_the_server_counts_it_and_starts_no_call(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(30), pad_s=0)
    talk = TalkPage(await (await open_chromium(shared_echo, microphone)).open("/#persona=" + "x" * 4001))
    count = talk.page.locator("#persona-count")
    await expect(count).to_have_text("4001 / 4000")
    await talk.call.click()
    await talk.expect_error("The persona is too long")
    await talk.expect_error("It has 4001 characters, and the agent takes 4000 at most.")
    await expect(talk.persona).to_be_focused()
    await expect(talk.persona).to_have_attribute("aria-invalid", "true")
    await talk.persona.fill("\N{GRINNING FACE}" * 4000)
    await expect(talk.error).to_be_empty()
    await expect(count).to_have_text("4000 / 4000")
    await expect(count).not_to_have_class("count over")
    await talk.start()
    await talk.end()
