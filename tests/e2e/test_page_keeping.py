"""What a person takes along from a call: the recording of both sides, and the words as text, WebVTT and JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.async_api import Dialog, expect

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.page import TalkPage
from tests.e2e.speaking import say, take_microphone
from tests.e2e.speech import clearly, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

WINDOW_S = 0.1
SOUND_RMS = 0.01
SAID, SHOWN = 450, 400
"""Turns of a long call, and of those the ones that the page has room for."""
SAY_JS = """async turns => {
    for (let item = 0; item < turns; item++) {
        const detail = { item, text: `Turn ${item}`, final: true, start_ms: item * 10, end_ms: item * 10 + 5 };
        rtc.client.dispatchEvent(new CustomEvent('input.transcript', { detail }));
        if (item % 10 === 0) await new Promise(requestAnimationFrame);
    }
}"""


async def test_a_call_can_be_taken_along_as_sound_and_as_words(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    talk = TalkPage(await (await open_chromium(await serve("cascade", 1), microphone)).open())
    await expect(talk.page.locator("#keep")).to_be_hidden()
    await talk.page.get_by_role("button", name="Record").click()
    await take_microphone(talk.page)
    await talk.start()
    await talk.wait_said("agent", "interrupt me", 20)
    await say(talk, clearly("What time is it?"), "time is it")
    await talk.wait_said("agent", r"it is \d+", 20)
    await talk.wait_state("listening")
    await talk.end()
    await expect(talk.page.get_by_role("button", name="Record")).to_have_attribute("aria-pressed", "false")

    files = {name: await download(talk, name, tmp_path) for name in ("recording", "text", "webvtt", "json")}
    left, right, rate_hz = decoded(files["recording"])
    you, agent = heard(left, rate_hz), heard(right, rate_hz)
    assert 0.5 < np.count_nonzero(you) * WINDOW_S < 6, "the left side is the caller's"
    assert np.count_nonzero(agent) * WINDOW_S > 1.5, "the right side is the agent's"
    first_you, first_agent = int(np.argmax(you)), int(np.argmax(agent))
    assert first_agent < first_you, "the agent greets before the question"
    assert not (you & agent).any(), "nobody spoke at the same time, so what is on both sides leaked"

    text = files["text"].read_text()
    assert re.search(r"^\[00:\d\d\] You: .*time is it", text, re.MULTILINE | re.IGNORECASE), text
    assert re.search(r"^\[00:\d\d\] Agent: ", text, re.MULTILINE), text
    vtt = files["webvtt"].read_text()
    assert vtt.startswith("WEBVTT\n\n")
    cues = re.findall(r"(\d\d:\d\d:\d\d\.\d{3}) --> (\d\d:\d\d:\d\d\.\d{3})\n<v (You|Agent)>", vtt)
    assert {who for _, _, who in cues} == {"You", "Agent"}
    assert all(start < end for start, end, _ in cues) and [cue[0] for cue in cues] == sorted(cue[0] for cue in cues)
    assert len(re.findall(r"<00:00:\d\d\.\d{3}>", vtt)) > 5, "words carry their times"
    call = json.loads(files["json"].read_text())
    assert call["engine"] and call["session_id"] and call["events_left_out"] == 0
    kinds = {happening["event"]["type"] for happening in call["events"]}
    assert {"session.created", "session.ready", "response.delta", "input.transcript"} <= kinds
    assert "resume_token" not in files["json"].read_text()
    assert any("time is it" in turn["text"].lower() for turn in call["turns"] if turn["side"] == "user")


async def test_a_recording_is_lost_neither_to_another_press_nor_to_a_reload(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    talk = TalkPage(await (await open_chromium(await serve("echo", 1, "--resume-s", "60"), microphone)).open())
    record, recordings = talk.page.locator("#record"), talk.page.get_by_test_id("keep-recording")
    await talk.start()
    await record.click()
    await talk.page.wait_for_timeout(2_000)
    await stay(talk)
    assert await talk.page.evaluate("rtc.client.state") == "live"
    await talk.end()
    for label in ("Will record", "Record"):
        await record.click()
        await expect(record).to_have_text(label)
    await stay(talk)
    await expect(recordings).to_have_count(1)
    assert (await download(talk, "recording", tmp_path)).stat().st_size > 5_000
    asked: list[str] = []

    async def leave(dialog: Dialog) -> None:
        asked.append(dialog.type)
        await dialog.accept()

    talk.page.on("dialog", leave)
    await talk.page.reload()
    assert not asked, "nothing is unsaved any more"


async def stay(talk: TalkPage) -> None:
    """Begin to reload, and think better of it when asked."""
    async with talk.page.expect_event("dialog") as asking:
        await talk.page.evaluate("() => { setTimeout(() => location.reload()) }")
    dialog = await asking.value
    assert dialog.type == "beforeunload"
    await dialog.dismiss()


async def test_a_long_call_keeps_its_words_in_the_files_and_says_what_is_not_shown(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    talk = TalkPage(await (await open_chromium(await serve("echo", 1, "--resume-s", "60"), microphone)).open())
    await talk.start()
    await talk.page.evaluate(SAY_JS, SAID)
    shown, left = talk.page.locator("#transcript .turn"), talk.page.locator("#transcript .turns-left")
    texts = []
    for reloads in (True, False):
        await expect(shown).to_have_count(SHOWN)
        await expect(left).to_have_text(f"{SAID - SHOWN} earlier turns are not shown any more.")
        await expect(shown.last).to_be_in_viewport()
        texts.append((await download(talk, "text", tmp_path)).read_text().splitlines())
        if reloads:
            await talk.page.reload()
            await talk.wait_live()
    await talk.end()
    whole, rest = texts
    assert [len(whole), len(rest)] == [SAID, SHOWN + 1] and whole[0].endswith("You: Turn 0")
    assert rest[0] == f"({SAID - SHOWN} earlier turns are not kept.)"


async def download(talk: TalkPage, name: str, directory: Path) -> Path:
    await talk.page.locator("#keep summary").click()
    async with talk.page.expect_download() as saving:
        await talk.page.get_by_test_id(f"keep-{name}").click()
    saved = await saving.value
    assert re.fullmatch(r"call-\d{4}-\d\d-\d\d-\d{4}\.(webm|txt|vtt|json)", saved.suggested_filename)
    path = directory / saved.suggested_filename
    await saved.save_as(path)
    return path


def decoded(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32], int]:
    """Both channels of a recording, and their rate."""
    with av.open(str(path)) as container:
        stream = container.streams.audio[0]
        assert stream.channels == 2
        frames = [frame.to_ndarray() for frame in container.decode(stream)]
        rate_hz = stream.rate
    left, right = np.concatenate([frame.reshape(2, -1) for frame in frames], axis=1).astype(np.float32)
    return left, right, rate_hz


def heard(pcm: NDArray[np.float32], rate_hz: int) -> NDArray[np.bool_]:
    """In which tenths of a second there is sound."""
    window = round(WINDOW_S * rate_hz)
    blocks = pcm[: pcm.size // window * window].reshape(-1, window)
    loud: NDArray[np.bool_] = np.sqrt(np.mean(blocks**2, axis=1)) > SOUND_RMS
    return loud
