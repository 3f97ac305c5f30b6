"""A person talks with the embedded agent on the phone: is greeted and understood, and interrupts it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.conftest import Serve
from tests.e2e.listen import SPEECH_RMS, plain, share_of
from tests.e2e.sip.livephone import LivePhone
from tests.e2e.sip.phoneline import PhoneLine, answered_call, call_feed
from tests.e2e.sip.sipserver import CallFeed
from tests.e2e.speech import clearly

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

PAUSE_S = 0.8
"""The agent has come to an end."""


class Conversation:
    """A phone that is answered, and what the application hears of its call."""

    def __init__(self, phone: LivePhone, feed: CallFeed) -> None:
        self.phone = phone
        self.feed = feed

    async def until_told(self, kind: str, words: str, within_s: float = 15.0) -> None:
        """``text`` of the agent's, or ``transcript`` of the caller's, in the events to come."""
        said = ""
        while words not in plain(said):
            event = await self.feed.until(kind, within_s)
            said += f" {event['text']}"

    async def until_agent_pauses(self) -> None:
        while True:
            heard = self.phone.heard()
            if heard.spans() and heard.end_s - heard.spans()[-1].end_s > PAUSE_S:
                return
            await asyncio.sleep(0.1)


async def test_a_caller_is_answered_and_stops_a_story_by_speaking_up(serve: Serve, tmp_path: Path) -> None:
    """One call for all of it: each begins with a greeting, which takes its time."""
    texts = (
        "Can you set a timer for ten minutes?",
        "Tell me a long story about the sea.",
        "Excuse me but would you please stop talking now.",
    )
    question, story, stop = map(clearly, texts)
    line = PhoneLine(tmp_path)
    server = await serve("cascade", 1, *line.flags)
    async with line.phone() as phone:
        await phone.call()
        async with call_feed(server.url, await answered_call(server)) as feed:
            conversation = Conversation(phone, feed)
            await conversation.until_told("text", "demo voice")
            await conversation.until_agent_pauses()
            asked_s = now_s()
            phone.say(question)
            await conversation.until_told("transcript", "timer for")
            await conversation.until_told("text", "minutes")
            await conversation.until_agent_pauses()

            wanted_s = now_s()
            phone.say(story)
            await conversation.until_told("text", "small boat")  # and two seconds to come without a pause
            stopped_s = now_s()
            lasts_s = phone.say(stop)
            barge_in = await feed.until("barge_in")
            await asyncio.sleep(2.5)
            await phone.hang_up()

    heard = phone.heard()
    assert share_of("I'm the demo voice", heard.between(0, asked_s).words()) > 0.6
    assert share_of("I will tell you in ten minutes", heard.between(asked_s, wanted_s).words()) > 0.6
    assert share_of("Once upon a time", heard.between(wanted_s, heard.end_s).words()) > 0.6

    assert barge_in["audio_ms"] > 0
    assert heard.between(stopped_s - 1.0, stopped_s).loudness() > SPEECH_RMS
    cut = next(span for span in heard.spans(gap_s=0.5) if span.end_s > stopped_s)
    assert cut.end_s < stopped_s + lasts_s, "it fell silent while the caller was still talking"
    told = " ".join(event["text"] for event in feed.past if event["type"] == "text")
    for rest in ("the wind had fallen", "told the sea a story"):
        assert rest not in plain(told)
    phone.assert_whole()


def now_s() -> float:
    """On the clock of what is heard."""
    return asyncio.get_running_loop().time()
