"""docs/telephony.md can be followed: its settings load, its programs run, and what it says of figures is so."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp.test_utils import TestServer
from pydantic import BaseModel

from rtc_server import cli, config, sipconfig
from rtc_server.config.section import Section
from rtc_server.config.sip import (
    MAX_WEBHOOK_S,
    MIN_SECRET_CHARS,
    SipNumberSettings,
    SipSettings,
    SipTrunkSettings,
)
from rtc_server.errors import NotConnected, RtcServerError
from rtc_server.http.callevents import MAX_UNANSWERED, PING_EVERY_S
from rtc_server.http.calls import MAX_METADATA, MAX_VALUE_CHARS, DialBody, DigitsBody, TransferBody
from rtc_server.session.liveness import Verdict
from rtc_server.transports.sip.call import endreason
from rtc_server.transports.sip.call.answers import METHODS
from rtc_server.transports.sip.call.calls import MAX_REMEMBERED, REMEMBERED_S
from rtc_server.transports.sip.call.digits import MAX_DIGITS
from rtc_server.transports.sip.call.feed import MAX_SUBSCRIBERS, MAX_WAITING
from rtc_server.transports.sip.call.surroundings import CallSettings
from rtc_server.transports.sip.media.rtpport import MIN_REST_S, pairs_between
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from rtc_server.transports.sip.trunk.gatekeeper import TRUNK_REQUESTS_PER_S
from rtc_server.transports.sip.trunk.sources import (
    ALL_ANSWERS_PER_S,
    ALL_MESSAGES_PER_S,
    FAILURES_FREE,
    MESSAGES_PER_S,
    REQUESTS_PER_S,
)
from rtc_server.transports.sip.trunk.webhook import DECLINED, Accept, IncomingCall, Reject, Webhook
from tests.http.phonesite import NUMBER, phone_site
from tests.telephonypage import PAGE, ROOT, blocks, commands, names_in, rows_below, table_below

SECRET = "a secret of the application"

FOLDER = "/etc/rtc-server/"


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
    models: dict[str, type[BaseModel]] = {
        "calls": DialBody,
        "dtmf": DigitsBody,
        "transfer": TransferBody,
    }
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
        f"rest for {MIN_REST_S:g} s behind it: 1000 ports are {len(pairs_between(20_000, 20_999))} calls",
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
        f"known by its address | {TRUNK_REQUESTS_PER_S:g} a second |",
        f"{MESSAGES_PER_S:g} a second for each address, {ALL_MESSAGES_PER_S:g} of all",
        f"answers to strangers | {ALL_ANSWERS_PER_S:g} a second |",
        f"the {ALL_MESSAGES_PER_S:g} messages of all do not",
        f"with a password it may send {REQUESTS_PER_S:g} requests",
        f"needs a secret of {MIN_SECRET_CHARS} characters or more, in `webhook_secret_file`",
        f"had one until {MIN_REST_S:g} s ago",
        f"so answer within {MAX_WEBHOOK_S:g} seconds",
        f"(400 to 699, default {DECLINED})",
    ):
        assert sentence in text, sentence
    assert "REGISTER" not in METHODS


def errors() -> dict[str, type[RtcServerError]]:
    """All of them by the name of their class."""
    known: dict[str, type[RtcServerError]] = {}
    waiting = [RtcServerError]
    while waiting:
        kinds = waiting.pop().__subclasses__()
        known |= {kind.__name__: kind for kind in kinds}
        waiting += kinds
    return known


def raised_in(*places: str) -> set[type[RtcServerError]]:
    """Errors that a file of the package, or one below a folder of it, makes."""
    package, made = ROOT / "rtc_server", set()
    for place in places:
        for path in (package / place).rglob("*.py") if (package / place).is_dir() else (package / place,):
            made |= set(re.findall(r"\b([A-Z]\w+)\(", path.read_text(encoding="utf-8")))
    return {kind for name, kind in errors().items() if name in made}


def written_in(pattern: str, *folders: str) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        for path in (ROOT / "rtc_server" / folder).rglob("*.py"):
            found |= set(re.findall(pattern, path.read_text(encoding="utf-8")))
    return found


ENDS_A_CALL = raised_in("transports/sip/media", "transports/sip/transaction", "session/admission.py") - {NotConnected}
"""What the set-up of a call raises becomes the reason of its end. Of a call that is set up keys can be asked for."""
ANSWERED_BY_THE_API = raised_in("http/calls.py", "http/auth.py", "session/admission.py") | raised_in(
    "transports/sip/call", "transports/sip/transaction", "transports/sip/useragent.py", "media/telephoneevent.py"
) - {MediaRefused}


def test_every_outcome_of_a_call_is_explained_and_nothing_else_is() -> None:
    explained = set(table_below("## Why a call ended"))
    outcomes = {endreason.outcome_of(status) for status in range(300, 700)}
    ended = written_in(r"(?:\bend\(|\bend, |\bhangup\()\"(\w+)\"", "transports/sip")
    of_sessions = written_in(r"\bclose\(\"(\w+)\"", "session") - {"client_closed"}  # which only pages and tools do
    of_sessions |= {verdict.value for verdict in (Verdict.IDLE_TOO_LONG, Verdict.GONE)}
    webhook = written_in(r"reason: str = \"(\w+)\"", "transports/sip/call") | {"webhook_failed"}
    codes = {kind.code for kind in ENDS_A_CALL if kind.code != "trunk_busy"}  # told before there is a call
    code = outcomes | ended | of_sessions | webhook | codes
    assert len(ended) > 8 and {"hangup", "rejected", "idle", "no_rtp_port"} <= code
    assert not code - explained, "not explained"
    literals = written_in(r"\"(\w+)\"", "transports/sip", "session") | {"server_stopping"}
    assert not explained - code - literals - {kind.code for kind in errors().values()}, "there is no such reason"


def test_every_error_of_the_api_stands_beside_its_status() -> None:
    rows = rows_below("status means that there is no call:")
    told = {(status, code) for status, codes, _ in rows for code in names_in(codes)}
    known = {kind.code: str(kind.http_status) for kind in errors().values()}
    assert told == {(known[code], code) for _, code in told}
    expected = {kind.code for kind in ANSWERED_BY_THE_API if kind.http_status != 500}
    assert not expected - {code for _, code in told}
    assert {"not_connected", "invalid_number", "trunk_busy", "transfer_refused", "call_not_found"} <= expected
    for status, codes, _ in rows:
        assert names_in(codes), f"{status} has no code"


def told_reasons() -> set[str]:
    return set(table_below("## Why a call ended"))


def test_every_status_that_a_caller_is_told_stands_in_the_table() -> None:
    told = {status for cell, _ in rows_below("## What a caller is told") for status in re.findall(r"\d{3}", cell)}
    given = r"(?:refuse|reply|Refuse|Refused|Refusal|Rejected|Fault|_error)\(.*?\b([4-6]\d\d)\b"
    code = written_in(given, "transports/sip") | {str(endreason.status_for(reason)) for reason in told_reasons()}
    assert len(code) > 12 and code <= told


def test_every_link_leads_somewhere() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) == anchors
