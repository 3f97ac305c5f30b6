"""Our page, as a person uses it: what they press and what they read."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from playwright.async_api import Page, expect

from tests.e2e.listen import plain

LIVE_STATES = "listening|hearing|speaking|interrupted"
CONNECT_MS = 15_000
WATCH_STATES_JS = """(() => {
  window.states = [document.body.dataset.state];
  new MutationObserver(() => states.push(document.body.dataset.state)).observe(document.body, {
    attributes: true, attributeFilter: ['data-state'],
  });
})()"""
"""Every state that the page comes to from now on, however short it is seen, in `states`."""
ASKED_AGAIN_JS = """(() => {
  const asked = performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname);
  const isPath = (path) => path === '/v1/sessions' || path.startsWith('/v1/sessions/');
  return asked.filter(isPath).slice(1).map((path) => (path === '/v1/sessions' ? 'resume' : 'restart'));
})()"""
"""What the page has asked the server for since it has its call, in order."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One entry of the transcript."""

    side: str
    text: str
    cut: str
    """The word at which the agent was interrupted, or ""."""

    @property
    def words(self) -> str:
        return plain(self.text)


class TalkPage:
    """Presses and reads; asks no script for anything that a person could see."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.call = page.locator("#call")
        self.mute = page.locator("#mute")
        self.status = page.locator("#status")
        self.error = page.locator("#error")
        self.engine = page.locator("#engine")
        self.persona = page.locator("#persona")
        self.voice = page.locator("#voice")

    async def start(self) -> None:
        """Press Start, and wait until the agent can be talked to."""
        await self.call.click()
        await self.wait_live()

    async def press_call(self) -> None:
        """The button, by keyboard."""
        await self.call.focus()
        await self.page.keyboard.press("Enter")

    async def wait_live(self) -> None:
        await self.wait_state(LIVE_STATES, CONNECT_MS)

    async def wait_state(self, states: str, within_ms: float = CONNECT_MS) -> None:
        """`states`: names of `data-state` of the body, with a bar between them."""
        selector = ",".join(f'body[data-state="{state}"]' for state in states.split("|"))
        await self.page.wait_for_selector(selector, state="attached", timeout=within_ms)

    async def end(self) -> None:
        await self.call.click()
        await self.wait_state("ended")

    async def turns(self) -> list[Turn]:
        found = await self.page.locator("#transcript .turn").evaluate_all(
            """turns => turns.map(turn => ({
                side: turn.classList.contains('agent') ? 'agent' : 'user',
                text: [...turn.querySelectorAll('.word')].map(word => word.textContent).join(' '),
                cut: turn.querySelector('.word.cut')?.textContent ?? '',
            }))"""
        )
        return [Turn(**turn) for turn in found]

    async def said(self, side: str) -> str:
        """All that one side has said, as the transcript shows it."""
        return " ".join(turn.words for turn in await self.turns() if turn.side == side)

    async def wait_said(self, side: str, words: str, within_s: float) -> None:
        """Until the transcript shows `words` (a regular expression in small letters) on a side."""
        deadline = asyncio.get_running_loop().time() + within_s
        while not re.search(words, await self.said(side)):
            if asyncio.get_running_loop().time() > deadline:
                shown = [f"{turn.side}: {turn.text}" for turn in await self.turns()]
                raise AssertionError(f"no {words!r} by the {side} within {within_s} s; the transcript: {shown}")
            await asyncio.sleep(0.2)

    async def wait_cut(self, words: str, within_s: float) -> Turn:
        """Until the agent's turn with `words` in it is marked as interrupted."""
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            turns = await self.turns()
            for turn in turns:
                if turn.side == "agent" and words in turn.words and turn.cut:
                    return turn
            assert asyncio.get_running_loop().time() < deadline, f"{words!r} not cut within {within_s} s: {turns}"
            await asyncio.sleep(0.2)

    async def expect_error(self, text: str) -> None:
        await expect(self.error).to_contain_text(text)
