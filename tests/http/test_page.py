from __future__ import annotations

import pytest

from tests.http.conftest import Site


async def test_page_comes_with_a_strict_policy(site: Site) -> None:
    response = await site.client.get("/")
    assert response.status == 200
    assert response.content_type == "text/html"
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"


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
