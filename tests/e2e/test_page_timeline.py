"""The picture of both voices, and words that light up with their sound: read from the page, measured in the page."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from playwright.async_api import Page, expect

from tests.e2e.conftest import OpenChromium
from tests.e2e.listen import SPEECH_RMS
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speaking import say, speak, speak_at, take_microphone
from tests.e2e.speech import Pcm, chatter, clearly, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

LIT_WITHIN_S = 0.080
"""Where the page's own timers are in time; what they are late is the machine's."""
PAUSE_S = 0.1
"""A pause of the agent; what it says next has an onset that can be measured."""

WATCH_WORDS_JS = """() => {
    const lit = new Map();
    const late = [];
    let dueMs = performance.now();
    const tick = () => {
        const now = performance.now();
        late.push([now / 1000, (now - dueMs) / 1000]);
        dueMs = now + 10;
        setTimeout(tick, 10);
    };
    tick();
    window.late = () => late;
    window.lit = () => [...lit].map(([element, atMs]) => ({ text: element.textContent, atMs, was: element.wasDim }));
    new MutationObserver((changes) => {
        const now = performance.now();
        for (const { target } of changes) {
            for (const word of target.parentElement?.querySelectorAll('.agent .coming') ?? []) word.wasDim = true;
            for (const word of document.querySelectorAll('.agent .word.lit')) if (!lit.has(word)) lit.set(word, now);
        }
    }).observe(document.querySelector('#transcript'), {
        subtree: true, childList: true, attributes: true, attributeFilter: ['class'],
    });
}"""


@dataclass(frozen=True, slots=True)
class LitWord:
    text: str
    at_s: float
    was_dim: bool


async def lit_words(page: Page) -> list[LitWord]:
    return [LitWord(word["text"], word["atMs"] / 1000, bool(word["was"])) for word in await page.evaluate("lit()")]


HEAR_JS = """() => {
    window.blocks = [];
    const listen = async (track) => {
        const reader = new MediaStreamTrackProcessor({ track, maxBufferSize: 500 }).readable.getReader();
        for (;;) {
            const { value, done } = await reader.read();
            if (done) return;
            const readMs = performance.now();
            const samples = new Float32Array(value.numberOfFrames);
            value.copyTo(samples, { planeIndex: 0, format: 'f32-planar' });
            const square = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
            blocks.push([readMs / 1000, value.timestamp / 1e6, Math.sqrt(square)]);
            value.close();
        }
    };
    const Peer = window.RTCPeerConnection;
    window.RTCPeerConnection = class extends Peer {
        constructor(...settings) {
            super(...settings);
            this.addEventListener('track', ({ track }) => listen(track));
        }
    };
}"""
"""The agent's sound as the page gets it to play it: of each block, when it was read, its own time, its level."""


async def onsets(page: Page) -> list[float]:
    """When sound begins after a pause, on the page's clock."""
    read_s, began_s, level = np.array(await page.evaluate("blocks")).T
    # A block is read late, never early: the least lateness ties its clock to the page's.
    began_s = began_s + (read_s - began_s).min()
    loud = np.flatnonzero(level > SPEECH_RMS)
    after_pause = np.diff(began_s[loud], prepend=-1.0) > PAUSE_S
    return [float(at_s) for at_s in began_s[loud[after_pause]]]


async def timers_late(page: Page) -> Callable[[float, float], float]:
    """By how much the page's timers were late at most between two times on its clock; all in seconds."""
    at_s, late_s = np.array(await page.evaluate("late()")).T

    def between(start_s: float, end_s: float) -> float:
        # A timer that is late tells so when it has come.
        around = (at_s >= start_s - 0.1) & (at_s - late_s <= end_s + 0.1)
        return float(late_s[around].max(initial=0.0))

    return between


async def overlap_pixels(page: Page) -> tuple[int, int]:
    """How many pixels of the picture have the colour of both at once: in your half and in the agent's."""
    above, below = await page.locator("#timeline-canvas").evaluate(
        """canvas => {
            const {width, height} = canvas;
            const colour = getComputedStyle(canvas).getPropertyValue('--overlap').trim().slice(1);
            const wanted = [0, 2, 4].map(at => parseInt(colour.slice(at, at + 2), 16));
            const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
            const found = [0, 0];
            for (let pixel = 0; pixel < width * height; pixel++) {
                const near = wanted.every((value, at) => Math.abs(data[4 * pixel + at] - value) < 12);
                if (near && data[4 * pixel + 3] > 60) found[Number(pixel >= width * height / 2)] += 1;
            }
            return found;
        }"""
    )
    return above, below


MID_SENTENCE = ("small", "sailor", "wind")
"""Words of the story behind which the teller goes on for more than a second."""


def hum() -> Pcm:
    """A remark too short for the agent to stop."""
    pcm = clearly("Uh huh.")
    loudest = int(np.argmax(np.convolve(np.abs(pcm), np.ones(2400), "same")))
    pcm = pcm[max(0, loudest - 4800) : loudest + 4800].copy()
    fade = np.linspace(0, 1, 480, dtype=np.float32)
    pcm[:480] *= fade
    pcm[-480:] *= fade[::-1]
    return pcm


async def test_the_picture_tells_an_interruption_from_a_hum(
    shared_cascade: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    talk = TalkPage(await (await open_chromium(shared_cascade, microphone)).open())
    picture, counts = talk.page.get_by_role("img", name="time line"), talk.page.locator("#timeline-counts")
    await expect(picture).to_have_attribute("aria-label", re.compile("^An example"))
    await expect(talk.page.get_by_text("No turns here")).to_be_visible()
    await expect(counts).to_be_hidden()
    assert await overlap_pixels(talk.page) != (0, 0), "the example shows both at once"

    await take_microphone(talk.page)
    await talk.start()
    await expect(talk.page.get_by_text("No turns here")).to_be_hidden()
    await expect(counts).to_have_text("0 overlaps · 0 backchannels · 0 interruptions")
    assert await overlap_pixels(talk.page) == (0, 0)
    # The hum does not stop the story; what is said then does.
    await talk.wait_said("agent", "interrupt me", 20)
    await say(talk, clearly("Tell me a long story about the sea."), "story")
    for word in MID_SENTENCE:  # a hum of which a busy machine swallows half is no overlap
        await speak_at(talk.page, word, hum())
        with contextlib.suppress(AssertionError):
            await expect(counts).to_contain_text("1 backchannel ", timeout=2000)
            break
    await expect(counts).to_have_text(re.compile("[1-3] overlaps? · 1 backchannel · 0 interruptions"))
    above, below = await overlap_pixels(talk.page)
    assert above > 10 and below > 10, "both voices are in the third colour"
    for _ in range(3):  # who begins where the agent takes a breath, takes a turn
        await talk.wait_state("speaking")
        await speak(talk.page, clearly("Excuse me but I would like to say something now."))
        with contextlib.suppress(AssertionError):
            await expect(counts).to_contain_text("1 interruption", timeout=6000)
            break
    await expect(counts).to_have_text(re.compile("[2-9] overlaps · [1-4] backchannels? · 1 interruption"))
    await expect(picture).to_have_attribute("aria-label", re.compile(r"[1-4] backchannels? · 1 interruption\.$"))
    await talk.end()
    assert await overlap_pixels(talk.page) != (0, 0), "the picture stays when the call is over"


async def test_a_page_that_is_loaded_again_counts_on(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(30), pad_s=0)
    talk = TalkPage(await (await open_chromium(shared_echo, microphone)).open())
    counts = talk.page.locator("#timeline-counts")
    await talk.page.evaluate(HOLD_READY_JS)
    await talk.call.click()
    await talk.wait_state("preparing")
    await talk.page.evaluate("goOn()")
    await talk.wait_live()
    await talk.wait_state("speaking|interrupted")
    await talk.page.evaluate("tell({type: 'input.speech_started', audio_ms: 0})")
    await talk.page.evaluate("tell({type: 'response.cancelled', epoch: 1, played_ms: 0, dropped_ms: 80})")
    await expect(counts).to_contain_text("1 interruption")
    await talk.page.reload()
    await talk.wait_live()
    await expect(counts).to_have_text(re.compile("[1-9] overlaps? · \\d backchannels? · [1-9] interruption"))
    await talk.end()
    await talk.start()
    await expect(counts).to_contain_text("0 interruptions")
    await talk.end()


async def test_a_word_lights_up_with_its_sound(
    shared_cascade: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(30))
    talk = TalkPage(await (await open_chromium(shared_cascade, microphone)).open())
    await talk.page.evaluate(WATCH_WORDS_JS)
    await talk.page.evaluate(HEAR_JS)
    await talk.start()
    await talk.wait_said("agent", "interrupt me", 20)
    words = await lit_words(talk.page)
    # The first words of sentences, and one behind a comma: where a pause tells when the sound of a word begins.
    began = await onsets(talk.page)
    timers = await timers_late(talk.page)
    for text in ("Hi,", "Ask", "tell"):
        lit_s = next(word.at_s for word in words if word.text == text)
        late_s = min((lit_s - onset_s for onset_s in began), key=abs)
        assert abs(late_s) <= LIT_WITHIN_S + timers(lit_s - abs(late_s), lit_s), (text, late_s, words, began)
    # Before that they were there already, dim, and nobody could take them for heard.
    assert sum(word.was_dim for word in words) >= len(words) / 2, words
    await talk.end()
    assert await talk.page.locator("#transcript .coming").count() == 0


HOLD_READY_JS = """() => {
    const Peer = window.RTCPeerConnection;
    window.RTCPeerConnection = class extends Peer {
        createDataChannel(label, options) {
            const channel = super.createDataChannel(label, options);
            let held = null;
            const say = (event) => channel.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(event) }));
            channel.addEventListener('message', (event) => {
                if (!event.isTrusted || !event.data.includes('session.ready')) return;
                event.stopImmediatePropagation();
                const events = [JSON.parse(event.data)].flat();
                held = events.find(({ type }) => type === 'session.ready');
                say(events.filter((other) => other !== held));
            });
            const hands = { tell: say, goOn: () => say({ ...held, seq: undefined }) };
            if (label === 'events') Object.assign(window, hands);
            return channel;
        }
    };
}"""
"""Keeps the event that the agent can be talked to, so that a test can tell the page what comes before it."""


async def test_a_queue_and_the_reading_of_the_prompt_show_how_far_they_are(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(5))
    talk = TalkPage(await (await open_chromium(shared_echo, microphone)).open())
    hint, bar = talk.page.locator("#hint"), talk.page.get_by_role("progressbar")
    await talk.page.evaluate(HOLD_READY_JS)
    await talk.call.click()
    await talk.wait_state("preparing")
    await expect(bar).to_be_hidden()
    for position in (3, 1):
        await talk.page.evaluate("position => tell({type: 'session.queued', position})", position)
        await expect(hint).to_contain_text(f"number {position} in the queue")
    await talk.page.evaluate("tell({type: 'session.prefill', done: 120, total: 400})")
    await expect(hint).to_contain_text("30 %")
    await expect(bar).to_be_visible()
    assert await bar.evaluate("bar => bar.position") == pytest.approx(0.3)
    await talk.page.evaluate("goOn()")
    await talk.wait_live()
    await expect(bar).to_be_hidden()
    await expect(hint).not_to_contain_text("%")
    await talk.end()
