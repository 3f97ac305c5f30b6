"""Speaking into a page at the right moment: when the words are seen, however slow the machine is."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from playwright.async_api import Page

from tests.e2e.page import TalkPage
from tests.e2e.speech import Pcm

_TRIES = 3
_SPEAK_JS = Path(__file__).with_name("speak.js").read_text()


async def take_microphone(page: Page) -> None:
    """From the next call on, the page's microphone hears what `speak` says and nothing else; until it is reloaded."""
    await page.evaluate(_SPEAK_JS)


async def speak(page: Page, pcm: Pcm) -> None:
    """Begin to say it. Two at once are mixed."""
    await page.evaluate("speech => speak(speech)", _encoded(pcm))


async def say(talk: TalkPage, pcm: Pcm, understood: str) -> None:
    """When the agent is silent, and again, as people do, where a busy machine tore holes into the words: until the
    transcript shows `understood` (a regular expression in small letters) as the user's."""
    for tries_left in reversed(range(_TRIES)):
        await talk.wait_state("listening")
        await speak(talk.page, pcm)
        try:
            await talk.wait_said("user", understood, 15)
        except AssertionError:
            if not tries_left:
                raise
        else:
            return


async def speak_at(page: Page, word: str, pcm: Pcm, within_s: float = 30.0) -> float:
    """Begin to say it in the moment in which the agent has been heard to say `word`: the page itself looks. When that
    was, on the page's clock."""
    async with asyncio.timeout(within_s):
        began_s: float = await page.evaluate("([word, speech]) => speakAt(word, speech)", [word, _encoded(pcm)])
    return began_s


def _encoded(pcm: Pcm) -> str:
    return base64.b64encode((pcm.clip(-1, 1) * 32767).astype("<i2").tobytes()).decode()
