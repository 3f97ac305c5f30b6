"""Another page at ``/``: what is served of it, under which policy, and which archives and folders are refused."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from rtc_server.archive import Limits
from rtc_server.errors import ConfigError
from rtc_server.http.errors import error_middleware
from rtc_server.http.page import Page
from rtc_server.http.webarchive import read_archive
from rtc_server.http.webui import WebUi, chosen_page, read_folder

FILES = {
    "index.html": b"<!doctype html><script type=module src=/assets/app.js></script>",
    "assets/app.js": b"start()",
    "assets/codec.wasm": b"\0asm",
    "docs/index.html": b"<!doctype html>docs",
    "readyz": b"mine",
}
NAVIGATION = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

Open = Callable[[Mapping[str, bytes]], Awaitable[TestClient[Any, Any]]]


@pytest.fixture
async def open_page() -> AsyncIterator[Open]:
    """A site with a page and one route of the API."""
    clients: list[TestClient[Any, Any]] = []

    async def api(_request: web.Request) -> web.Response:
        return web.Response(text="api")

    async def start(files: Mapping[str, bytes]) -> TestClient[Any, Any]:
        app = web.Application(middlewares=[error_middleware])
        app.add_routes([web.get("/readyz", api), web.post("/v1/sessions", api), *WebUi(files).routes()])
        clients.append(TestClient(TestServer(app)))
        await clients[-1].start_server()
        return clients[-1]

    yield start
    for client in clients:
        await client.close()


@pytest.fixture
async def client(open_page: Open) -> TestClient[Any, Any]:
    return await open_page(FILES)


# ---- serving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        ("/", "index.html", "text/html"),
        ("/index.html", "index.html", "text/html"),
        ("/assets/app.js", "assets/app.js", "text/javascript"),
        ("/assets/codec.wasm", "assets/codec.wasm", "application/wasm"),
        ("/docs/", "docs/index.html", "text/html"),
    ],
)
async def test_its_files_are_served(client: TestClient[Any, Any], path: str, name: str, kind: str) -> None:
    response = await client.get(path)
    assert (response.status, await response.read()) == (200, FILES[name])
    assert response.content_type == kind
    again = await client.get(path, headers={"If-None-Match": response.headers["ETag"]})
    assert again.status == 304


async def test_a_place_within_the_application_is_the_index(client: TestClient[Any, Any]) -> None:
    response = await client.get("/conversation/7?voice_prompt=x", headers=NAVIGATION)
    assert (response.status, await response.read()) == (200, FILES["index.html"])


@pytest.mark.parametrize("path", ["/missing.js", "/v1/nothing", "/api/nothing", "/../pyproject.toml", "/%2e%2e/etc"])
async def test_what_is_no_place_is_not_found(client: TestClient[Any, Any], path: str) -> None:
    assert (await client.get(path)).status == 404


async def test_the_api_keeps_its_place(client: TestClient[Any, Any]) -> None:
    assert await (await client.get("/readyz")).text() == "api"
    assert (await client.get("/v1/sessions", headers=NAVIGATION)).status == 405


async def test_its_policy_lets_a_recorder_run_and_nobody_else_in(client: TestClient[Any, Any]) -> None:
    headers = (await client.get("/")).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self' 'wasm-unsafe-eval' blob:"
    assert policy["worker-src"] == "'self' blob:"
    assert policy["frame-ancestors"] == "'none'"
    assert not [sources for sources in policy.values() if "*" in sources or "http" in sources]
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_scripts_that_stand_in_the_page_are_allowed_by_their_digest(open_page: Open) -> None:
    client = await open_page({"index.html": b"<script>\r\n  a < b && c()\r\n</script><script src=x.js>no</script>"})
    policy = (await client.get("/")).headers["Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(b"\n  a < b && c()\n").digest()).decode()
    assert policy.count("sha256-") == 1
    assert f"'sha256-{digest}'" in policy


# ---- which page ------------------------------------------------------------------------------------------------------


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return folder


def no_archive() -> Path:
    raise AssertionError("nobody asked for it")


def test_the_setting_says_which_page_it_is(tmp_path: Path) -> None:
    assert isinstance(chosen_page("own", no_archive), Page)
    assert isinstance(chosen_page(str(write(tmp_path / "page", FILES)), no_archive), WebUi)
    archive = pack(tmp_path / "dist.tgz", {"dist/index.html": b"<p>"})
    assert isinstance(chosen_page("personaplex", lambda: archive), WebUi)


def test_a_folder_is_read_but_for_what_is_hidden(tmp_path: Path) -> None:
    write(tmp_path, {**FILES, ".env": b"secret", ".git/config": b"secret"})
    assert read_folder(tmp_path) == FILES


@pytest.mark.parametrize(
    ("limits", "message"),
    [(Limits(members=3), "more than 3 files"), (Limits(total_bytes=10), "more than 10 bytes")],
)
def test_a_folder_that_is_too_large_is_refused(limits: Limits, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        read_folder(write(tmp_path, FILES), limits)


@pytest.mark.parametrize(
    ("name", "message"), [("nowhere", "is no folder"), ("file", "is no folder"), ("empty", "no index.html")]
)
def test_what_holds_no_page_is_refused(name: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, {"file": b"", "empty/readme.txt": b""})
    with pytest.raises(ConfigError, match=message) as caught:
        chosen_page(str(tmp_path / name), no_archive)
    assert "--web-ui" in caught.value.hint


# ---- archives --------------------------------------------------------------------------------------------------------


def pack(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return path


@pytest.mark.parametrize("prefix", ["", "dist/", "./dist/", "package/client/dist/"])
def test_a_page_is_found_wherever_it_lies_in_the_archive(prefix: str, tmp_path: Path) -> None:
    files = {f"{prefix}{name}": body for name, body in FILES.items()}
    archive = pack(tmp_path / "dist.tgz", {f"{prefix}assets/._app.js": b"mac", **files})
    assert read_archive(archive) == FILES


def test_nothing_of_an_archive_is_written(tmp_path: Path) -> None:
    read_archive(pack(tmp_path / "dist.tgz", {"index.html": b"<p>"}))
    assert os.listdir(tmp_path) == ["dist.tgz"]


def test_an_archive_that_is_condemned_gives_no_page(tmp_path: Path) -> None:
    files = {"dist/index.html": b"<p>", "dist/app.js": b"start()"}
    with pytest.raises(ConfigError, match="outside its own folder"):
        read_archive(pack(tmp_path / "dist.tgz", {**files, "dist/../../x": b""}))
    with pytest.raises(ConfigError, match="more than 1 members"):
        read_archive(pack(tmp_path / "dist.tgz", files), Limits(members=1))


def test_an_archive_without_a_page_or_none_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no index\.html"):
        read_archive(pack(tmp_path / "dist.tgz", {"dist/readme.txt": b""}))
    with pytest.raises(ConfigError, match="No such file"):
        read_archive(tmp_path / "missing.tgz")
