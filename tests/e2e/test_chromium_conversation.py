"""A person talks with the embedded agent on the page, in Chromium: hears it, is understood, interrupts it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.listen import SPEECH_RMS, heard_by, share_of
from tests.e2e.page import TalkPage
from tests.e2e.speech import clearly, said, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

GREETING_S = 8.0
"""The person lets the agent finish its greeting."""
REPLY_S = 6.0
"""So long a person listens to a reply: long enough on a busy machine."""


async def test_a_person_is_greeted_and_understood(serve: Serve, open_chromium: OpenChromium, tmp_path: Path) -> None:
    server = await serve("cascade", 1)
    name, timer = said("02_two_turns", 0), clearly("Can you set a timer for ten minutes?")
    microphone = write_microphone(tmp_path / "mic.wav", silence(GREETING_S), name, silence(REPLY_S), timer)
    chromium = await open_chromium(server, microphone)
    talk = TalkPage(await chromium.open())
    await expect(talk.engine).to_contain_text("cascade")
    await talk.start()
    await talk.wait_said("agent", "demo voice.* interrupt me", 20)
    await talk.wait_said("user", "my name is", 20)
    await talk.wait_said("agent", "nice to meet you", 20)
    await talk.wait_said("user", "timer for (ten|10) minutes", 20)
    await talk.wait_said("agent", "i will tell you in 10 minutes", 20)
    await asyncio.sleep(2)

    # The words that were shown are the words that were heard, in the order in which they were said.
    turns = [turn for turn in await talk.turns() if turn.text]
    order = ("demo voice", "my name is", "nice to meet you", "timer", "i will tell you")
    places = [next(place for place, turn in enumerate(turns) if words in turn.words) for words in order]
    assert places == sorted(places)
    assert [turn.side for turn in turns[:2]] == ["agent", "user"]
    heard = (await heard_by(talk.page)).words()
    assert share_of(await talk.said("agent"), heard) > 0.6
    assert not any(turn.cut for turn in turns)

    await talk.end()
    await server.wait_slots_in_use(0, within_s=5)


async def test_an_interrupted_story_stops_and_its_cut_word_is_marked(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    server = await serve("cascade", 1)
    texts = ("Tell me a long story about the sea.", "Wait. Stop. Please stop talking.", "Thank you. What time is it?")
    story, stop, time = map(clearly, texts)
    parts = (silence(GREETING_S), story, silence(REPLY_S), stop, silence(REPLY_S), time)
    microphone = write_microphone(tmp_path / "mic.wav", *parts)
    chromium = await open_chromium(server, microphone)
    talk = TalkPage(await chromium.open())
    await talk.start()
    await talk.wait_said("user", "story", 30)
    await talk.wait_said("agent", "once upon a time a small boat", 10)
    told = await talk.wait_cut("once upon a time", 15)
    await talk.wait_said("user", "story.* (wait|stop|talking)", 15)
    await talk.wait_said("user", "thank you|what time", 15)
    await talk.wait_said("agent", r"welcome|it is \d+", 10)
    await asyncio.sleep(2)

    assert told.cut == told.text.split()[-1]
    assert told in await talk.turns()  # nothing came after the cut

    agent, user = await heard_by(talk.page), await heard_by(talk.page, "user")
    _, interruption, *_ = user.spans(gap_s=1.2)
    began_s = interruption.start_s
    assert agent.between(began_s - 1.0, began_s).loudness() > SPEECH_RMS
    cut = next(span for span in agent.spans(gap_s=0.5) if span.end_s > began_s)
    assert cut.end_s < began_s + 1.5
    # What was heard is the story's beginning and then the answers, never the rest of the story.
    heard = agent.words()
    assert share_of(told.text, heard) > 0.6
    assert "wind had fallen" not in await talk.said("agent")
    assert "wind had fallen" not in heard

    await talk.end()
