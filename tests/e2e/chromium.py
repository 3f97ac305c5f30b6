"""Debian's Chromium through Playwright, as a person has it: a fresh profile, no flag that makes a page's life easier.

The microphone is a file. It is allowed by a permission, as if the person had once said yes, never by a flag that
answers every prompt; sound needs a real click, as everywhere.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, ConsoleMessage, Error, Page, Request, async_playwright

from tests.e2e.listen import EAR_JS

EXECUTABLE = shutil.which("chromium")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TIMEOUT_MS = 15_000


class Chromium:
    """One running browser. Collects what a page must not do: log errors, break its policy, talk to strangers."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.console_errors: list[str] = []
        self.strangers: list[str] = []
        self.expected_errors: list[str] = []
        """Parts of console errors that the test provokes."""
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.console_errors.append(f"uncaught: {error.error}"))
        context.on("request", self._on_request)

    async def open(self, path: str = "/") -> Page:
        """A tab with our page, its scripts run, the engine's name shown."""
        page = await self.context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        await page.goto(self.url + path)
        return page

    def complaints(self) -> list[str]:
        unexpected = [e for e in self.console_errors if not any(part in e for part in self.expected_errors)]
        return [*unexpected, *(f"request to {url}" for url in self.strangers)]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.console_errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((self.url + "/", "data:", "blob:", "about:", "chrome")):
            self.strangers.append(request.url)


@contextlib.asynccontextmanager
async def running_chromium(
    profile: Path, url: str, *, microphone: Path | None = None, allowed: bool = True, flags: Sequence[str] = ()
) -> AsyncIterator[Chromium]:
    """A browser for the server at `url`.

    `microphone` is what is said into it; without one, the machine has none. `allowed` False: the person refuses it.
    `flags` are for what a test cannot have otherwise, like a certificate that a browser knows.

    At the end no page has logged an error, broken its content security policy (which is logged as an error) or made a
    request to anybody but our server.
    """
    if EXECUTABLE is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    flags = [*_FLAGS, *flags]
    if microphone is not None:
        flags += ["--use-fake-device-for-media-stream", f"--use-file-for-fake-audio-capture={microphone}"]
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            profile, executable_path=EXECUTABLE, headless=True, args=flags, viewport={"width": 1280, "height": 900}
        )
        try:
            await context.add_init_script(EAR_JS)
            if allowed:
                await context.grant_permissions(["microphone"], origin=url)
            chromium = Chromium(context, url)
            yield chromium
            for page in context.pages:
                with contextlib.suppress(Error):  # a page that has been left, or has no call
                    await page.evaluate("rtc.client?.close()")
                await page.goto("about:blank")
            assert not chromium.complaints(), f"the page misbehaved: {chromium.complaints()}"
        finally:
            await context.close()
            shutil.rmtree(profile, ignore_errors=True)
