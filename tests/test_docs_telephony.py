"""docs/telephony.md can be followed: its settings load, its programs run, and what it says of figures is so."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp.test_utils import TestServer
from pydantic import BaseModel

from rtc_server import cli, config, sipconfig
from rtc_server.config.section import Section
from rtc_server.config.sip import SipNumberSettings, SipSettings, SipTrunkSettings
from rtc_server.http.callevents import MAX_UNANSWERED, PING_EVERY_S
from rtc_server.http.calls import MAX_METADATA, MAX_VALUE_CHARS, DialBody, DigitsBody, TransferBody
from rtc_server.transports.sip.call import endreason
from rtc_server.transports.sip.call.answers import METHODS
from rtc_server.transports.sip.call.calls import MAX_REMEMBERED, REMEMBERED_S
from rtc_server.transports.sip.call.digits import MAX_DIGITS
from rtc_server.transports.sip.call.feed import MAX_SUBSCRIBERS, MAX_WAITING
from rtc_server.transports.sip.call.surroundings import CallSettings
from rtc_server.transports.sip.trunk.gatekeeper import TRUNK_REQUESTS_PER_S
from rtc_server.transports.sip.trunk.sources import FAILURES_FREE, REQUESTS_PER_S
from rtc_server.transports.sip.trunk.webhook import Accept, IncomingCall, Reject, Webhook
from tests.http.phonesite import NUMBER, phone_site

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "telephony.md").read_text(encoding="utf-8")
SECRET = "a secret of the application"

FOLDER = "/etc/rtc-server/"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def commands() -> Iterator[str]:
    for block in blocks("console"):
        yield from (line.removeprefix("$ ") for line in block.replace("\\\n", "").splitlines())


def table_below(title: str) -> dict[str, list[str]]:
    """Rows by the names in their first cell; where it has several, each of them."""
    text = PAGE.partition(f"\n{title}")[2].partition("\n|")[2]
    rows: dict[str, list[str]] = {}
    for line in text.partition("\n\n")[0].splitlines()[2:]:
        first, *others = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        rows |= {name: [cell.strip() for cell in others] for name in re.findall(r"`(\w+)`", first)}
    return rows


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("RTC_"):
            monkeypatch.delenv(name)


# ---- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", blocks("toml"))
def test_every_settings_file_loads_and_makes_its_trunks(example: str, tmp_path: Path) -> None:
    for name in re.findall(rf'"{FOLDER}([\w.-]+)"', example):
        (tmp_path / name).write_text(SECRET)
    file = tmp_path / "rtc.toml"
    file.write_text(example.replace(FOLDER, f"{tmp_path}/"))
    sip = config.load({}, file).sip
    assert sip.listen
    assert sipconfig.build_listen(sip)
    passwords = {trunk.password_env or trunk.target_password_env or "": SECRET for trunk in sip.trunks}
    assert len(sipconfig.build_trunks(sip, passwords)) == len(sip.trunks)
    assert (sipconfig.build_webhook(sip) is None) is (sip.webhook_url is None)


def test_examples_are_there() -> None:
    assert len(blocks("toml")) >= 7


class Documented(NamedTuple):
    title: str
    model: type[Section | BaseModel]


@pytest.mark.parametrize(
    ("title", "model"),
    [
        Documented("`[sip]`", SipSettings),
        Documented("`[[sip.trunks]]`", SipTrunkSettings),
        Documented("`[[sip.trunks.numbers]]`", SipNumberSettings),
    ],
)
def test_every_setting_is_described_with_its_default(title: str, model: type[BaseModel]) -> None:
    rows = table_below(title)
    assert set(rows) == set(model.model_fields)
    for name, (_, default) in rows.items():
        value = model.model_fields[name].default
        if isinstance(value, bool):
            assert default == str(value).lower(), name
        elif isinstance(value, int | float):
            assert default == f"{value:g}", name
        elif isinstance(value, str):
            assert default == f"`{value}`", name


@pytest.mark.parametrize("command", [command for command in commands() if command.startswith("rtc-server ")])
def test_every_command_of_ours_can_be_given(command: str) -> None:
    cli._parser().parse_args(shlex.split(command, comments=True)[1:])


def test_flags_that_are_named_exist() -> None:
    options, flags = (
        (ROOT / "rtc_server" / "cli.py").read_text(encoding="utf-8"),
        set(re.findall(r"--[a-z-]{3,}", PAGE)),
    )
    assert len(flags) > 5
    assert not [flag for flag in flags if f'"{flag}"' not in options]


# ---- the API ---------------------------------------------------------------------------------------------------------


def test_every_request_of_the_page_is_taken() -> None:
    models: dict[str, type[BaseModel]] = {"calls": DialBody, "dtmf": DigitsBody, "transfer": TransferBody}
    checked = 0
    for command in (command for command in commands() if command.startswith("curl ")):
        words = shlex.split(command)
        what = next(word for word in words if word.startswith("http")).rpartition("/")[2]
        if "-d" in words:
            models[what].model_validate_json(words[words.index("-d") + 1])
            checked += 1
    assert checked >= 4


def test_fields_of_a_call_and_of_a_dial_are_those_of_the_code() -> None:
    fields = {field.alias or name for name, field in DialBody.model_fields.items()}
    assert set(table_below("```console\n$ curl http://localhost:8124/v1/calls -H")) == fields


async def test_call_that_is_shown_has_the_fields_of_a_real_one() -> None:
    shown = json.loads(next(block for block in blocks("json") if "lasted_s" in block))
    async with phone_site() as site:
        assert set(await site.dial()) == set(shown)


@pytest.mark.parametrize("key", [None, "unused"])
async def test_program_that_dials_prints_what_happens(
    key: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv("RTC_API_KEY", key)
    program: dict[str, Any] = {"__name__": "dial"}
    exec(next(block for block in blocks("python") if "ws_connect" in block), program)
    async with phone_site() as site:
        running = asyncio.ensure_future(program["call"](str(site.client.make_url("/")), NUMBER))
        await site.until(lambda: bool(site.phone.count("INVITE")))
        site.phone.answer(180)
        call = site.world.call
        await site.until(lambda: bool(call.feed._subscriptions))
        site.phone.answer(486)
        await asyncio.wait_for(running, 5)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")] == [
        "{'type': 'ringing'}",
        "{'type': 'ended', 'reason': 'busy', 'detail': '486'}",
    ]


@pytest.mark.parametrize(
    ("caller", "callee", "secret", "decision"),
    [
        ("+15550142", "+15550100", SECRET, Accept("You take orders.")),
        (None, "+15550100", SECRET, Reject(403)),
        ("+15550142", "+1", SECRET, Reject(403)),
        ("+15550142", "+15550100", "another secret altogether", Reject(480)),
    ],
)
async def test_webhook_of_the_page_decides_and_believes_only_us(
    caller: str | None, callee: str, secret: str, decision: Accept | Reject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTC_SIP_WEBHOOK_SECRET", SECRET)
    program: dict[str, Any] = {"__name__": "application"}
    exec(next(block for block in blocks("python") if "X-RTC-Signature" in block), program)
    async with TestServer(program["app"]) as application:
        webhook = Webhook(str(application.make_url("/calls")), secret)
        assert await webhook.decide(IncomingCall("call_1", "twilio", caller, callee)) == decision
        await webhook.close()


async def test_webhook_of_the_page_refuses_what_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_SIP_WEBHOOK_SECRET", SECRET)
    program: dict[str, Any] = {"__name__": "application"}
    exec(next(block for block in blocks("python") if "X-RTC-Signature" in block), program)
    async with TestServer(program["app"]) as application:
        webhook = Webhook(str(application.make_url("/calls")), SECRET, wall_clock=lambda: 1_000_000_000)
        assert await webhook.decide(IncomingCall("call_1", "twilio", "+1", "+15550100")) == Reject(480)
        await webhook.close()


def test_question_of_the_webhook_is_shown_as_it_is() -> None:
    shown = json.loads(next(block for block in blocks("json") if '"headers"' in block))
    assert set(shown) == set(json.loads(IncomingCall("id", "trunk", None, "1").to_json()))


# ---- figures and words -----------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_code() -> None:
    settings, text = CallSettings(), " ".join(PAGE.split())
    for sentence in (
        f"1000 ports are {1000 // 2} calls",
        f"up to {MAX_METADATA} names and values of {MAX_VALUE_CHARS} characters",
        f"up to {MAX_DIGITS} of 0-9",
        f"{MAX_WAITING} events wait for a slow reader",
        f"pings every {PING_EVERY_S:g} s, and lets go of who has answered none of {MAX_UNANSWERED}",
        f"{MAX_SUBSCRIBERS} may listen",
        f"| {MAX_SUBSCRIBERS} each |",
        f"can be looked at for {REMEMBERED_S:g} s, and {MAX_REMEMBERED} of them",
        f"| {settings.setup_s:g} s |",
        f"sent no audio for {settings.quiet_s:g} s",
        f"timer under {settings.min_se_s} s",
        f"{REQUESTS_PER_S:g} a second for each address; after {FAILURES_FREE} wrong",
        f"| {TRUNK_REQUESTS_PER_S:g} a second |",
    ):
        assert sentence in text, sentence
    assert "REGISTER" not in METHODS


def test_every_outcome_of_a_call_is_explained() -> None:
    explained = set(table_below("## Why a call ended"))
    outcomes = {endreason.outcome_of(status) for status in range(300, 700)}
    assert outcomes <= explained
    written = set()
    for path in (ROOT / "rtc_server" / "transports" / "sip").rglob("*.py"):
        written |= set(re.findall(r"\bend\(\"(\w+)\"|end, \"(\w+)\"\)", path.read_text(encoding="utf-8")))
    reasons = {first or second for first, second in written}
    assert len(reasons) > 8
    assert reasons <= explained


def test_every_link_leads_somewhere() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) == anchors
