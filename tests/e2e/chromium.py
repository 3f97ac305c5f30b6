"""Debian's Chromium through Playwright, as a person has it: a fresh profile, no flag that makes a page's life easier.

The microphone is a file. It is allowed by a permission, as if the person had once said yes, never by a flag that
answers every prompt; sound needs a real click, as everywhere.
"""

from __future__ import annotations

import asyncio
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
START_WITHIN_S = 30.0


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


def _executable() -> str:
    if EXECUTABLE is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    return EXECUTABLE


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
    executable = _executable()
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            profile,
            executable_path=executable,
            headless=True,
            args=[*_FLAGS, *_microphone_flags(microphone), *flags],
            viewport={"width": 1280, "height": 900},
        )
        try:
            async with _attended(context, url, allowed) as chromium:
                yield chromium
        finally:
            await context.close()
            shutil.rmtree(profile, ignore_errors=True)


@contextlib.asynccontextmanager
async def running_chromium_with_tabs(profile: Path, url: str, microphone: Path) -> AsyncIterator[Chromium]:
    """As `running_chromium`, but a tab behind another one, or in a minimized window, is hidden and out of focus.

    Whatever Playwright launches it keeps in sight. So this browser is launched by hand, and Playwright only joins it.
    """
    executable = _executable()
    flags = ["--headless", "--remote-debugging-port=0", "--window-size=1280,900", f"--user-data-dir={profile}"]
    process = await asyncio.create_subprocess_exec(
        *(executable, *_FLAGS, *_microphone_flags(microphone), *flags, "about:blank"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with async_playwright() as playwright:
            address = f"http://127.0.0.1:{await _debugging_port(profile)}"
            browser = await playwright.chromium.connect_over_cdp(address, no_defaults=True)
            async with _attended(browser.contexts[0], url, allowed=True) as chromium:
                yield chromium
            await browser.close()
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(profile, ignore_errors=True)


@contextlib.asynccontextmanager
async def _attended(context: BrowserContext, url: str, allowed: bool) -> AsyncIterator[Chromium]:
    """The ear in every page, and the complaints at the end."""
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


def _microphone_flags(microphone: Path | None) -> list[str]:
    if microphone is None:
        return []
    return ["--use-fake-device-for-media-stream", f"--use-file-for-fake-audio-capture={microphone}"]


async def _debugging_port(profile: Path) -> int:
    """Chromium writes the port that it chose into its profile."""
    deadline = asyncio.get_running_loop().time() + START_WITHIN_S
    while True:
        with contextlib.suppress(OSError, ValueError):
            return int((profile / "DevToolsActivePort").read_text().splitlines()[0])
        assert asyncio.get_running_loop().time() < deadline, f"Chromium did not start within {START_WITHIN_S} s"
        await asyncio.sleep(0.1)
