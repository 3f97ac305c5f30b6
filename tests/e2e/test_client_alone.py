"""``client.js`` in anyone's page: the twenty lines of docs/client.md, on another origin than the server's."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import expect

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.listen import wait_heard
from tests.e2e.server import ROOT
from tests.e2e.speech import chatter, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

MAX_LINES = 24


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What somebody copies into a project: client.js and the folder beside it."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "static" / "client", folder / "client")
    shutil.copy(ROOT / "static" / "client.js", folder)
    return folder


@pytest_asyncio.fixture
async def origin(folder: Path) -> AsyncIterator[str]:
    """Of that project's own web server."""
    application = web.Application()
    application.router.add_static("/", folder)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0)
    await site.start()
    yield f"http://localhost:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_twenty_lines_on_another_origin_hold_a_call(
    serve: Serve, open_chromium: OpenChromium, folder: Path, origin: str, tmp_path: Path
) -> None:
    server = await serve("cascade", 1, "--allow-origin", origin)
    (folder / "index.html").write_text(example(server.url))
    microphone = write_microphone(tmp_path / "mic.wav", silence(1), chatter(30), pad_s=0)
    chromium = await open_chromium(server, microphone, url=origin)
    page = await chromium.open("/index.html")
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator("#words")).to_contain_text("Hi, I'm Ada", timeout=15_000)
    await wait_heard(page, sound=True)
    assert await server.slots_in_use() == 1
    await page.get_by_role("button", name="End").click()
    await server.wait_slots_in_use(0)
    assert chromium.strangers and all(url.startswith(server.url + "/v1/") for url in chromium.strangers)
    chromium.strangers.clear()


async def test_a_page_whose_origin_is_not_allowed_is_told(
    serve: Serve, open_chromium: OpenChromium, folder: Path, origin: str, tmp_path: Path
) -> None:
    server = await serve("echo", 1)
    (folder / "index.html").write_text(example(server.url))
    chromium = await open_chromium(server, write_microphone(tmp_path / "mic.wav", silence(1)), url=origin)
    chromium.expected_errors += ["blocked by CORS policy", "Failed to load resource"]
    page = await chromium.open("/index.html")
    await page.get_by_role("button", name="Call").click()
    await expect(page.locator("#words")).to_contain_text("no answer from the server")
    assert await server.slots_in_use() == 0
    chromium.strangers.clear()


def example(server_url: str) -> str:
    """The page of docs/client.md, for this server."""
    found = re.search(r"## Twenty lines\n\n```html\n(.*?)```", (ROOT / "docs" / "client.md").read_text(), re.DOTALL)
    assert found and len(found[1].splitlines()) <= MAX_LINES
    page = found[1].replace("https://voice.example.com", server_url).replace(", token: 'my-key'", "")
    assert server_url in page and "my-key" not in page
    return f"<!doctype html><link rel='icon' href='data:,'>\n{page}"
