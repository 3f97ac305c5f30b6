"""The set-up of a call on the page: persona, voice with a sample, seed and sampling, and a link that brings it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.async_api import Request, expect

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


async def test_an_engine_that_does_not_sample_offers_no_numbers(
    shared_echo: ServerProcess, open_chromium: OpenChromium
) -> None:
    talk = TalkPage(await (await open_chromium(shared_echo)).open("/#seed=7&text_top_k=9&persona=Ada"))
    await expect(talk.persona).to_have_value("Ada")
    await expect(talk.page.locator("#advanced")).to_be_hidden()
    await expect(talk.page.get_by_test_id("voice-sample")).to_be_hidden()
