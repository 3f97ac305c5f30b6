"""A person talks with the embedded agent on the page, in Chromium: hears it, is understood, interrupts it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.listen import SPEECH_RMS, heard_by, share_of
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speaking import say, speak_at, take_microphone
from tests.e2e.speech import clearly, said, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

MID_SENTENCE = "small"
"""Word of the story after which the teller pauses at no comma for two seconds: who begins in a pause takes a turn and
cuts no word."""


async def opened(server: ServerProcess, open_chromium: OpenChromium, tmp_path: Path) -> TalkPage:
    """A page whose microphone says what the test says."""
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    talk = TalkPage(await (await open_chromium(server, microphone)).open())
    await take_microphone(talk.page)
    return talk


async def test_a_person_is_greeted_and_understood(serve: Serve, open_chromium: OpenChromium, tmp_path: Path) -> None:
    server = await serve("cascade", 1)
    talk = await opened(server, open_chromium, tmp_path)
    await expect(talk.engine).to_contain_text("cascade")
    await talk.start()
    await talk.wait_said("agent", "demo voice.* interrupt me", 20)
    await say(talk, said("02_two_turns", 0), "my name is")
    await talk.wait_said("agent", "nice to meet you", 20)
    await say(talk, clearly("Can you set a timer for ten minutes?"), "timer for (ten|10) minutes")
    await talk.wait_said("agent", "i will tell you in 10 minutes", 20)
    await talk.wait_state("listening")

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
    await server.wait_slots_in_use(0)


async def test_an_interrupted_story_stops_and_its_cut_word_is_marked(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    server = await serve("cascade", 1)
    talk = await opened(server, open_chromium, tmp_path)
    await talk.start()
    await talk.wait_said("agent", "interrupt me", 20)
    await say(talk, clearly("Tell me a long story about the sea."), "story")
    began_s = await speak_at(talk.page, MID_SENTENCE, clearly("Excuse me but would you please stop talking now."))
    told = await talk.wait_cut("once upon a time a small", 15)
    await talk.wait_said("user", "story.* (excuse|would you|please|stop|talking)", 15)
    await say(talk, clearly("Thank you. What time is it?"), "thank you|what time")
    await talk.wait_said("agent", r"welcome|it is \d+", 15)
    await talk.wait_state("listening")

    assert told.cut == told.text.split()[-1]
    assert told in await talk.turns()  # nothing came after the cut

    agent, user = await heard_by(talk.page), await heard_by(talk.page, "user")
    interruption = next(span for span in user.spans(gap_s=0.8) if span.end_s > began_s)
    assert agent.between(began_s - 1.0, began_s).loudness() > SPEECH_RMS
    cut = next(span for span in agent.spans(gap_s=0.5) if span.end_s > began_s)
    assert cut.end_s < interruption.end_s, "the agent fell silent while the person was still talking"
    # What was heard is the story's beginning and then the answers, never the rest of the story.
    heard = agent.words()
    assert share_of(told.text, heard) > 0.6
    assert "wind had fallen" not in await talk.said("agent")
    assert "wind had fallen" not in heard

    await talk.end()
