"""What the page promises of itself: small, whole, and free of anything that its security policy would stop."""

from __future__ import annotations

import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "static"
FILES = sorted(path for path in STATIC.rglob("*") if path.is_file() and not path.name.startswith("."))
LOADED = [path for path in FILES if path.parent.name != "icons" and path.name != "package.json"]
"""Pictures for a home screen are fetched when the page is installed."""
MAX_PACKED_BYTES = 128_000
"""Without the headers of the answers, which are counted where they are sent."""


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
    packed = [min(path.stat().st_size, len(gzip.compress(path.read_bytes()))) for path in LOADED]
    assert sum(packed) < MAX_PACKED_BYTES, sum(packed)


def test_nothing_is_inline(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    for tag, attributes in elements:
        assert tag != "style"
        assert tag != "script" or "src" in attributes
        inline = [name for name in attributes if name == "style" or name.startswith("on")]
        assert not inline, (tag, inline)


def test_everything_that_is_asked_for_is_there(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    wanted = [attributes.get("src") or attributes.get("href") for _, attributes in elements]
    manifest = json.loads((STATIC / "manifest.webmanifest").read_text())
    for name in filter(None, [*wanted, *(icon["src"] for icon in manifest["icons"])]):
        assert (STATIC / name).is_file(), name
    for module in STATIC.rglob("*.js"):
        for imported in imports(module):
            assert imported.is_file(), (module.name, imported)


def imports(module: Path) -> list[Path]:
    names = re.findall(r"^(?:import|export)\b[^;]*?'(\.\.?/[^']+)';", module.read_text(), re.MULTILINE)
    return [(module.parent / name).resolve() for name in names]


def test_all_modules_are_asked_for_at_once(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    """Not one after the other, as each is found in the one before; the words of the first language among them."""
    graph, found = set[Path](), [STATIC / "main.js"]
    while found:
        module = found.pop()
        if module not in graph:
            graph.add(module)
            found += imports(module)
    language = re.findall(r"LANGUAGES = \{ (\w+):", (STATIC / "strings" / "languages.js").read_text())[0]
    graph.add(STATIC / "strings" / f"{language}.js")
    early = [
        attributes.get("src") or attributes.get("href") or ""
        for tag, attributes in elements
        if tag == "script" or attributes.get("rel") == "modulepreload"
    ]
    assert sorted(early) == sorted(module.relative_to(STATIC).as_posix() for module in graph)


def test_styles_run_along_the_line_of_reading() -> None:
    """From right to left too: nothing in them is left or right."""
    sides = re.compile(r"(margin|padding|border)-(left|right)|text-align: (left|right)|float:|(?<![\w-])(left|right):")
    for path in sorted((STATIC / "css").glob("*.css")):
        assert not sides.search(path.read_text()), path.name


def test_the_page_has_no_words_of_its_own() -> None:
    """They come from `strings/`, but for the name, and what is said to a browser that runs no script."""
    body = (STATIC / "index.html").read_text().split("<body", 1)[1]
    body = re.sub(r"<noscript>.*?</noscript>", "", body, flags=re.DOTALL)
    texts = {text.strip() for text in re.findall(r">([^<]+)<", body)} - {""}
    assert texts == {"rtc_server", "…", "M", "0"}
    for name in re.findall(r"<[^>]*\s(?:title|placeholder|alt|aria-label)=\"([^\"]+)", body):
        raise AssertionError(f"{name!r} is no string of strings/en.js")


def test_nothing_comes_from_elsewhere() -> None:
    for path in FILES:
        if path.suffix == ".png":
            continue
        addresses = set(re.findall(r"https?://\w[\w.-]*", path.read_text()))
        allowed = {"http://www.w3.org", "http://localhost", "https://voice.example.com", "https://host"}
        assert addresses <= allowed, (path.name, addresses - allowed)


def test_every_id_that_the_script_looks_up_exists(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    ids = {attributes["id"] for _, attributes in elements if "id" in attributes}
    wanted = set(re.findall(r"byId\('([\w-]+)'\)", (STATIC / "main.js").read_text()))
    assert wanted and wanted <= ids, wanted - ids


def test_what_changes_all_the_time_is_not_read_out(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    """Neither who speaks now nor a figure: what a screen reader says of itself is what happens once."""
    told = {"output", "status", "alert", "log"}
    live = [
        attributes
        for tag, attributes in elements
        if {tag, attributes.get("role")} & told or attributes.get("aria-live")
    ]
    assert {attributes["id"] for attributes in live} == {
        "phase", "error", "announcer", "devices-told", "diagnostics-told", "link-told", "setup-told",
    }  # fmt: skip


def test_what_tests_and_people_rely_on_is_there(elements: list[tuple[str, dict[str, str | None]]]) -> None:
    by_id = {attributes["id"]: (tag, attributes) for tag, attributes in elements if attributes.get("id")}
    for name in ("call", "mute", "status", "transcript", "error", "latency", "engine", "persona", "voice"):
        assert by_id[name][1]["data-testid"] == name
    assert by_id["error"][1]["role"] == "alert"
    tag, audio = by_id["audio"]
    assert tag == "audio" and {"autoplay", "playsinline"} <= audio.keys()
