"""What the log says of calls that come in: of those that are taken, and why others are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.typing import EventDict

from rtc_server.transports.sip.call.reception import LINES_OF_EACH
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.trunk.numbers import NumberRule
from rtc_server.transports.sip.trunk.patterns import Pattern
from rtc_server.transports.sip.trunk.webhook import Reject
from tests.logs import captured_logs, entry_of
from tests.transports.sip.call.fakes import TRUNK, FakeWebhook, World
from tests.transports.sip.call.phone import US, Phone, sdp

RULES = (
    NumberRule(Pattern("+15550100"), max_calls=1),
    NumberRule(Pattern("+15550101"), allow_callers=(Pattern("+1777*"),)),
    NumberRule(Pattern("+15550102")),
)


def phone_of(world: World, number: str = "+15550100", host: str = "198.51.100.7") -> Phone:
    phone = world.phone(Flow("udp", US, (host, 5060)))
    phone.target = f"sip:{number}@192.0.2.10"
    return phone


def of(entry: EventDict) -> tuple[Any, ...]:
    return tuple(entry[name] for name in ("trunk", "caller", "callee", "status", "cause"))


async def test_call_that_arrives_is_logged_with_who_calls_whom(world: World) -> None:
    with captured_logs() as logs:
        await world.ringing()
    entry = entry_of(logs, "call arrives")
    assert (entry["call_id"], entry["trunk"], entry["caller"], entry["callee"], entry["log_level"]) == (
        world.call.id,
        "carrier",
        "1001",
        "+15550100",
        "info",
    )


@pytest.mark.parametrize(
    ("number", "headers", "status", "cause"),
    [
        ("+15559999", "", 404, "no number rule of the trunk matches +15559999"),
        ("+15550101", "", 403, "allow_callers of +15550101 does not have the caller"),
        ("+15550102", "Require: telepathy", 420, "it requires what is not known here: telepathy"),
        ("+15550102", "Content-Type: text/plain", 415, "its body is no session description"),
        ("+15550102", "Accept: text/plain", 406, "it accepts no session description"),
        (
            "+15550102",
            "Supported: timer\r\nSession-Expires: 60",
            422,
            "its session timer is no number, or shorter than 90 s",
        ),
        (
            "+15550102",
            "Contact: <nonsense>",
            400,
            "its From, To, Contact or Record-Route is malformed",
        ),
    ],
)
async def test_refused_call_is_logged_with_status_and_cause(number: str, headers: str, status: int, cause: str) -> None:
    world = World(trunks=[replace(TRUNK, numbers=RULES)])
    phone = phone_of(world, number)
    with captured_logs() as logs:
        phone.invite(headers=headers)
        await world.settle()
    assert phone.last.status == status
    assert of(entry_of(logs, "call refused")) == ("carrier", "1001", number, status, cause)
    assert "call arrives" not in [entry["event"] for entry in logs]


async def test_limits_say_which_one_was_reached() -> None:
    world = World(trunks=[replace(TRUNK, numbers=RULES, max_calls=2)], slots=2)
    with captured_logs() as logs:
        for number in ("+15550100", "+15550100", "+15550102", "+15550102"):
            phone_of(world, number, f"198.51.100.{len(logs) + 7}").invite()
            await world.settle()
        world.agent.drain()
        phone_of(world, "+15550102", "198.51.100.99").invite()
    assert [of(entry)[3:] for entry in logs if entry["event"] == "call refused"] == [
        (486, "+15550100 has as many calls as it may: max_calls is 1"),
        (503, "the trunk has as many calls as it may: max_calls is 2"),
        (503, "the server is shutting down"),
    ]


async def test_full_server_is_logged() -> None:
    world = World(slots=1)
    await world.ringing()
    with captured_logs() as logs:
        await world.ringing(phone_of(world, host="198.51.100.8"))
    assert of(entry_of(logs, "call refused"))[3:] == (503, "all 1 conversation slots are in use")


async def test_flood_of_a_trunk_is_not_one_of_log_lines(world: World) -> None:
    world = World(trunks=[replace(TRUNK, numbers=RULES)])
    with captured_logs() as logs:
        for _ in range(300):
            phone_of(world, "+15559999").invite()
        assert len(logs) == LINES_OF_EACH
        await world.advance(60)
        phone_of(world, "+15559999").invite()
    assert logs[-1]["left_out"] == 300 - LINES_OF_EACH


async def test_call_without_a_common_codec_ends_with_the_cause_in_the_log(world: World) -> None:
    with captured_logs() as logs:
        await world.ringing(body=sdp("18 G729/8000"))
    ended = entry_of(logs, "call ended")
    assert (ended["reason"], ended["detail"]) == ("media_refused", "none of opus, G722, PCMU, PCMA in g729/8000")


async def test_call_that_just_ends_has_no_detail_in_the_log(world: World) -> None:
    phone = await world.answered()
    with captured_logs() as logs:
        phone.send("BYE")
    assert "detail" not in entry_of(logs, "call ended")


async def test_words_of_the_other_end_are_cut_and_printable_in_the_log(world: World) -> None:
    phone = await world.answered()
    with captured_logs() as logs:
        phone.send("BYE", headers=f'Reason: SIP;text="\u202e{"x" * 300}"')
    detail = entry_of(logs, "call ended")["detail"]
    assert detail.isprintable() and len(detail) == 200


async def test_failed_webhook_is_told_from_one_that_rejects() -> None:
    for decision, reason in ((Reject(480), "rejected"), (Reject(480, "no answer"), "webhook_failed")):
        with captured_logs() as logs:
            await World(webhook=FakeWebhook(decision)).ringing()
        assert entry_of(logs, "call ended")["reason"] == reason
