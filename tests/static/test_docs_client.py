"""docs/client.md names the events, fields, members and errors that the code has. Its example is called in tests/e2e."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from rtc_server import events

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "client.md").read_text()
CLIENT = (ROOT / "static" / "client.js").read_text()
SOCKETS_ONLY = {"input.dropped"}
OPEN_ENDED = {"session.stats"}
"""Ends in `...`: docs/events.md has all of it."""


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", DOC, re.DOTALL | re.MULTILINE)
    assert found, title
    return found[1]


def rows(title: str) -> list[tuple[str, str]]:
    """First and second cell of each row of a section's table."""
    found = re.findall(r"^\| (`.*?) \| (.*) \|$", section(title), re.MULTILINE)
    assert len(found) > 5, title
    return found


def names(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def names_of_js(comment: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", comment))


def documented_events() -> dict[str, str]:
    return {kind: detail for kinds, detail in rows("Events") for kind in names(kinds)}


def server_events() -> dict[str, set[str]]:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type)]
    ours = [kind for kind in kinds if issubclass(kind, events.ServerEvent) and kind is not events.ServerEvent]
    return {kind.type: {field.name for field in dataclasses.fields(kind)} for kind in ours}


def test_the_events_are_those_of_the_server_and_of_the_client() -> None:
    own = set(re.findall(r"#emit\('([a-z.]+)'", CLIENT)) - {"message"}
    assert own == {"state", "track", "sound", "microphone"}
    assert set(documented_events()) == own | set(server_events()) - SOCKETS_ONLY


@pytest.mark.parametrize("kind", sorted(set(server_events()) - SOCKETS_ONLY))
def test_the_fields_of_an_event_are_those_that_the_server_sends(kind: str) -> None:
    detail = documented_events()[kind]
    # One cell may stand for several events, each with fields of its own.
    cell = next(cell for cells, cell in rows("Events") if kind in names(cells))
    together = set().union(*(server_events()[other] for other, its in documented_events().items() if its == cell))
    braces = re.search(r"`\{(.*?)\}`", detail)
    written = set(re.findall(r"\w+", braces[1])) if braces else set()
    assert written <= together, f"{kind}: no field {written - together}"


def test_the_members_of_the_client_are_all_there_and_exist() -> None:
    written = {name for cell, _ in rows("RtcClient") for name in re.findall(r"`(?:new )?(\w+)", cell)} - {"RtcClient"}
    members = set(re.findall(r"^  (?:async |get )?([a-z]\w*)\(.*\{$", CLIENT, re.MULTILINE)) - {"constructor"}
    assert written == members
    states = re.search(r"@typedef \{(.*?)\} ClientState", CLIENT)
    listed = re.search(r"^States: (.*?)\n\n", section("RtcClient"), re.DOTALL | re.MULTILINE)
    assert states and listed
    assert names(listed[1]) == re.findall(r"'(\w+)'", states[1])


@pytest.mark.parametrize("method", ["connect", "close", "constructor"])
def test_the_options_are_those_that_the_client_takes(method: str) -> None:
    taken = re.search(rf"^  (?:async )?{method}\(\{{(.*?)\}} = \{{\}}\)", CLIENT, re.MULTILINE)
    written = re.search(rf"`(?:new )?{'RtcClient' if method == 'constructor' else method}\(\{{(.*?)\}}\)`", DOC)
    assert taken and written
    for_tests = {"fetch", "RTCPeerConnection", "around"}
    options = {option.split("=")[0].strip() for option in taken[1].split(",")} - for_tests
    assert {option.strip() for option in written[1].split(",")} == options


def test_every_error_that_the_client_makes_is_explained() -> None:
    modules = [ROOT / "static" / "client.js", *sorted((ROOT / "static" / "client").glob("*.js"))]
    code = "\n".join(module.read_text() for module in modules)
    made = set(re.findall(r"new CallError\('(\w+)'", code)) | set(re.findall(r"\w+Error: '(\w+)'", code))
    explained = {name for cell, _ in rows("Errors") for name in names(cell)}
    assert len(made) > 10 and made <= explained, made - explained
    listed = names_of_js((ROOT / "static" / "client" / "errors.js").read_text().split("*/", 1)[0])
    assert made <= listed, made - listed
