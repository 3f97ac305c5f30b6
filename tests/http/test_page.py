from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer

from rtc_server.http.page import Page, static_dir
from tests.http.conftest import Site


async def test_page_comes_with_a_strict_policy(site: Site) -> None:
    response = await site.client.get("/")
    assert response.status == 200
    assert response.content_type == "text/html"
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_whatever_a_person_can_open_as_a_document_has_the_policy(site: Site) -> None:
    for path, has in (("/index.html", True), ("/favicon.svg", True), ("/main.js", False), ("/css/base.css", False)):
        headers = (await site.client.get(path)).headers
        assert ("Content-Security-Policy" in headers) is (headers.get("Referrer-Policy") == "no-referrer") is has, path
        assert headers["X-Content-Type-Options"] == "nosniff"


async def test_unchanged_file_is_not_sent_again(site: Site) -> None:
    etag = (await site.client.get("/index.html")).headers["ETag"]
    response = await site.client.get("/index.html", headers={"If-None-Match": etag})
    assert (response.status, await response.read()) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/nothing.js", "/../pyproject.toml", "/%2e%2e/pyproject.toml", "/.gitkeep", "/static/%2fetc%2fpasswd"]
)
async def test_only_files_of_the_page_exist(site: Site, path: str) -> None:
    response = await site.client.get(path)
    assert response.status == 404
    assert (await response.json())["code"] == "not_found"


async def test_modules_are_served_as_javascript(site: Site) -> None:
    response = await site.client.get("/client.js")
    assert response.content_type == "text/javascript"


PLAIN = {"Accept-Encoding": "identity"}


@pytest.fixture
async def raw(site: Site) -> AsyncIterator[ClientSession]:
    """A client that shows what came over the wire."""
    async with ClientSession(site.client.make_url("/"), auto_decompress=False) as session:
        yield session


async def test_texts_come_compressed_to_who_takes_that(raw: ClientSession) -> None:
    plain = await raw.get("/main.js", headers=PLAIN)
    packed = await raw.get("/main.js", headers={"Accept-Encoding": "gzip, deflate, br"})
    assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    assert packed.headers["ETag"] != plain.headers["ETag"]
    assert packed.content_type == plain.content_type == "text/javascript"
    assert gzip.decompress(await packed.read()) == await plain.read()


@pytest.mark.parametrize("accepts", ["gzip;q=0", "identity, gzip;q=0.5", "br"])
async def test_who_wants_plain_bytes_gets_them(raw: ClientSession, accepts: str) -> None:
    response = await raw.get("/main.js", headers={"Accept-Encoding": accepts})
    assert "Content-Encoding" not in response.headers


async def test_each_form_is_known_by_its_own_tag(raw: ClientSession) -> None:
    packed = {"Accept-Encoding": "gzip"}
    tags = [(await raw.get("/", headers=headers)).headers["ETag"] for headers in (PLAIN, packed)]
    for headers, own, other in ((PLAIN, *tags), (packed, *reversed(tags))):
        for known, status in ((own, 304), (f'"x", W/{own}', 304), ("*", 304), (other, 200), ("nonsense", 200)):
            response = await raw.get("/", headers={**headers, "If-None-Match": known})
            assert (response.status, response.headers["Vary"]) == (status, "Accept-Encoding"), known
            if status == 304:
                assert "Content-Encoding" not in response.headers and not await response.read()


async def test_head_says_what_get_would_send(raw: ClientSession) -> None:
    for path in ("/", "/main.js", "/favicon.svg"):
        for headers in (PLAIN, {"Accept-Encoding": "gzip"}):
            head, get = await raw.head(path, headers=headers), await raw.get(path, headers=headers)
            assert head.status == 200 and await head.read() == b""
            for name in ("Content-Length", "Content-Type", "ETag", "Vary"):
                assert head.headers[name] == get.headers[name], name
            for name in ("Content-Encoding", "Content-Security-Policy"):
                assert head.headers.get(name) == get.headers.get(name), name


async def test_no_answer_tells_what_it_runs_on(raw: ClientSession) -> None:
    for path in ("/", "/main.js", "/v1/config", "/nothing.js", "/metrics"):
        assert "Server" not in (await raw.get(path)).headers


async def test_the_whole_page_loads_in_under_150_kb_over_the_wire(raw: ClientSession) -> None:
    """All of it but the pictures for a home screen, which a browser fetches when the page is installed."""
    there = (path for path in static_dir().rglob("*") if path.is_file() and not path.name.startswith("."))
    files = [path for path in there if path.parent.name != "icons" and path.name != "package.json"]
    wire_bytes = 0
    for path in files:
        response = await raw.get(f"/{path.relative_to(static_dir()).as_posix()}", headers={"Accept-Encoding": "gzip"})
        assert response.status == 200, path
        head_bytes = sum(len(name) + len(value) + 4 for name, value in response.raw_headers)
        wire_bytes += len(await response.read()) + head_bytes
    assert len(files) > 20 and wire_bytes < 150_000


async def test_files_of_folders_have_the_types_that_browsers_ask_for(tmp_path: Path) -> None:
    kinds = {
        "client/line.js": "text/javascript; charset=utf-8",
        "strings/en.js": "text/javascript; charset=utf-8",
        "css/base.css": "text/css; charset=utf-8",
        "icons/icon-192.png": "image/png",
        "icons/icon.svg": "image/svg+xml; charset=utf-8",
        "manifest.webmanifest": "application/manifest+json",
        "index.html": "text/html; charset=utf-8",
        "a/b/c/deep.json": "application/json",
    }
    for name in (*kinds, ".git/config", "css/.hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * 1000)
    app = web.Application()
    app.add_routes(Page(tmp_path).routes())
    async with TestClient(TestServer(app)) as client:
        for name, kind in kinds.items():
            response = await client.get(f"/{name}", headers={"Accept-Encoding": "gzip"})
            assert (response.status, response.headers["Content-Type"]) == (200, kind), name
            assert ("Content-Encoding" in response.headers) == (name != "icons/icon-192.png"), name
        for name in (".git/config", "css/.hidden", "css/", "css"):
            assert (await client.get(f"/{name}")).status == 404, name
