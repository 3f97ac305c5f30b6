"""Factories for server, browsers and clients; what a test starts is ended and checked after it, the server last."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.e2e.aiortc_client import AiortcClient
from tests.e2e.chromium import TIMEOUT_MS, Chromium, running_chromium, running_chromium_with_tabs
from tests.e2e.firefox import Firefox, running_firefox
from tests.e2e.server import ServerProcess, running_server
from tests.e2e.speech import Pcm

expect.set_options(timeout=TIMEOUT_MS)

Serve = Callable[..., Awaitable[ServerProcess]]
OpenChromium = Callable[..., Awaitable[Chromium]]
OpenFirefox = Callable[..., Awaitable[Firefox]]
Caller = Callable[[ServerProcess, Pcm], AiortcClient]


@pytest_asyncio.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """``await serve("echo", slots=1)``: a server that is ready; at the end it must be idle and its log clean."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            engine: str = "echo", slots: int = 2, *flags: str, after: ServerProcess | None = None
        ) -> ServerProcess:
            return await stack.enter_async_context(running_server(tmp_path, engine, slots, *flags, after=after))

        yield start


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_echo(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """One server for all tests of a module that leave it as they found it; judged at the end, as any other."""
    async with running_server(tmp_path_factory.mktemp("echo"), "echo", 2) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_cascade(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    """As `shared_echo`; this engine takes seconds to start."""
    async with running_server(tmp_path_factory.mktemp("cascade"), "cascade", 2) as server:
        yield server


@pytest_asyncio.fixture
async def open_chromium(tmp_path: Path, serve: Serve) -> AsyncIterator[OpenChromium]:
    """``await open_chromium(server, microphone=wav)``: a browser of its own."""
    profiles = (tmp_path / f"chromium-{number}" for number in itertools.count())
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            server: ServerProcess, microphone: Path | None = None, allowed: bool = True, url: str = ""
        ) -> Chromium:
            browser = running_chromium(next(profiles), url or server.url, microphone=microphone, allowed=allowed)
            return await stack.enter_async_context(browser)

        yield start


@pytest_asyncio.fixture
async def open_chromium_with_tabs(tmp_path: Path, serve: Serve) -> AsyncIterator[OpenChromium]:
    """``await open_chromium_with_tabs(server, wav)``: one in which a page can be hidden."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(server: ServerProcess, microphone: Path) -> Chromium:
            browser = running_chromium_with_tabs(tmp_path / "chromium-tabs", server.url, microphone)
            return await stack.enter_async_context(browser)

        yield start


@pytest_asyncio.fixture
async def open_firefox(tmp_path: Path, serve: Serve) -> AsyncIterator[OpenFirefox]:
    """``await open_firefox({"pref": value})``: a browser of its own."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(prefs: dict[str, Any] | None = None) -> Firefox:
            return await stack.enter_async_context(running_firefox(tmp_path / "firefox", prefs))

        yield start


@pytest_asyncio.fixture
async def caller(serve: Serve) -> AsyncIterator[Caller]:
    """``caller(server, pcm)``: a stock aiortc client that says `pcm`; closed at the end."""
    clients: list[AiortcClient] = []

    def make(server: ServerProcess, pcm: Pcm) -> AiortcClient:
        clients.append(AiortcClient(server.url, pcm))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()
