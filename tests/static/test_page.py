"""What the page promises of itself: small, whole, and free of anything that its security policy would stop."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file() and not path.name.startswith("."))
MAX_PAGE_BYTES = 180_000


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def elements() -> list[tuple[str, dict[str, str | None]]]:
    page = _Page()
    page.feed((STATIC / "index.html").read_text())
    return page.elements


def test_page_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) < MAX_PAGE_BYTES


def test_nothing_is_inline(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    for tag, attributes in elements:
        assert tag != "style"
        assert tag != "script" or "src" in attributes
        inline = [name for name in attributes if name == "style" or name.startswith("on")]
        assert not inline, (tag, inline)


def test_everything_that_is_asked_for_is_there(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    wanted = [attributes.get("src") or attributes.get("href") for _, attributes in elements]
    for name in filter(None, wanted):
        assert (STATIC / name).is_file(), name
    for module in STATIC.rglob("*.js"):
        for name in re.findall(
            r"^(?:import|export) .*?from '(\.\.?/[^']+)'", module.read_text(), re.MULTILINE | re.DOTALL
        ):
            assert (module.parent / name).is_file(), (module.name, name)


def test_nothing_comes_from_elsewhere() -> None:
    for path in FILES:
        addresses = set(re.findall(r"https?://\w[\w.-]*", path.read_text()))
        allowed = {"http://www.w3.org", "http://localhost", "https://voice.example.com", "https://host"}
        assert addresses <= allowed, (path.name, addresses - allowed)


def test_every_id_that_the_script_looks_up_exists(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    ids = {attributes["id"] for _, attributes in elements if "id" in attributes}
    wanted = set(re.findall(r"byId\('([\w-]+)'\)", (STATIC / "main.js").read_text()))
    assert wanted and wanted <= ids, wanted - ids


def test_what_tests_and_people_rely_on_is_there(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    by_id = {attributes["id"]: (tag, attributes) for tag, attributes in elements if attributes.get("id")}
    for name in ("call", "mute", "status", "transcript", "error", "latency", "engine", "persona", "voice"):
        assert by_id[name][1]["data-testid"] == name
    assert by_id["status"][1]["role"] == "status"
    assert by_id["error"][1]["role"] == "alert"
    tag, audio = by_id["audio"]
    assert tag == "audio" and {"autoplay", "playsinline"} <= audio.keys()
