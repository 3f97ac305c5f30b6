"""Phone calls over HTTP: dialled, looked at, hung up, transferred; and what cannot be asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.network.target import Target
from tests.http.conftest import KEY
from tests.http.phonesite import NUMBER, PhoneSite, phone_site
from tests.transports.sip.call.fakes import TRUNK
from tests.transports.sip.call.phone import sdp


@pytest.fixture
async def site() -> AsyncIterator[PhoneSite]:
    async with phone_site() as site:
        yield site


# ---- dialling --------------------------------------------------------------------------------------------------------


async def test_call_is_a_resource_as_soon_as_it_is_placed(site: PhoneSite) -> None:
    response = await site.client.post("/v1/calls", json={"to": NUMBER, "voice": "bass", "metadata": {"order": "7"}})
    call = await response.json()
    assert response.status == 201
    assert response.headers["Location"] == f"/v1/calls/{call['id']}"
    assert call["state"] == "calling"
    assert (call["direction"], call["trunk"], call["from"], call["to"]) == (
        "outbound",
        "carrier",
        "+15550199",
        NUMBER,
    )
    assert (call["voice"], call["metadata"], call["end_reason"]) == ("bass", {"order": "7"}, None)
    assert call["session_id"]
    assert await site.get(response.headers["Location"]) == call


async def test_what_is_asked_for_reaches_engine_and_phone(site: PhoneSite) -> None:
    body = {"from": "+15550123", "trunk": "carrier", "persona": "You are Ann.", "seed": 5}
    await site.dial(**body, metadata={"X-Customer": "7; a=b", "note": "ours"})
    invite = site.phone.last_request("INVITE")
    assert (invite.headers.get("From") or "").startswith("<sip:+15550123@")
    assert invite.headers.get("X-Customer") == "7; a=b"
    assert invite.headers.get("note") is None
    prompt = site.world.call.prompt
    assert prompt is not None
    assert (prompt.persona, prompt.seed) == ("You are Ann.", 5)


async def test_number_of_a_sip_uri_counts_and_the_trunk_says_where_it_lies(site: PhoneSite) -> None:
    await site.dial(to="sip:+15550100@elsewhere.example;transport=tls?X-Header=1")
    assert site.phone.last_request("INVITE").uri == "sip:+15550100@198.51.100.7:5060"


@pytest.mark.parametrize(
    ("status", "reason"),
    [(486, "busy"), (603, "declined"), (480, "no_answer"), (404, "no_such_number"), (500, "failed")],
)
async def test_who_waits_is_told_how_the_call_went(site: PhoneSite, status: int, reason: str) -> None:
    waiting = asyncio.ensure_future(site.post("/v1/calls", {"to": NUMBER, "wait": "answered"}))
    await site.until(lambda: bool(site.phone.count("INVITE")))
    site.phone.answer(180)
    assert not waiting.done()
    site.phone.answer(status)
    code, call = await waiting
    assert code == 201
    assert (call["state"], call["end_reason"], call["end_detail"]) == ("ended", reason, str(status))


async def test_who_waits_is_told_of_the_answer(site: PhoneSite) -> None:
    waiting = asyncio.ensure_future(site.post("/v1/calls", {"to": NUMBER, "wait": "answered"}))
    await site.until(lambda: bool(site.phone.count("INVITE")))
    site.phone.answer(200, sdp())
    code, call = await waiting
    assert (code, call["state"], call["end_reason"]) == (201, "answered", None)


async def test_who_waits_is_told_when_nobody_answers(site: PhoneSite) -> None:
    waiting = asyncio.ensure_future(site.post("/v1/calls", {"to": NUMBER, "wait": "answered"}))
    await site.until(lambda: bool(site.phone.count("INVITE")))
    site.phone.answer(180)
    await site.world.advance(61)
    code, call = await waiting
    assert (code, call["state"], call["end_reason"], call["lasted_s"]) == (201, "ended", "no_answer", 60.0)


# ---- what cannot be had ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "to: "),
        ({"to": ""}, "to: "),
        ({"to": 15550100}, "to: "),
        ({"to": "+" + "1" * 300}, "to: "),
        ({"to": NUMBER, "from": ""}, "from: "),
        ({"to": NUMBER, "seed": -1}, "seed: "),
        ({"to": NUMBER, "seed": True}, "seed: "),
        ({"to": NUMBER, "wait": "for ever"}, "wait: "),
        ({"to": NUMBER, "metadata": ["a"]}, "metadata: "),
        ({"to": NUMBER, "metadata": {"a": 1}}, "metadata.a: "),
        ({"to": NUMBER, "metadata": {f"n{i}": "" for i in range(17)}}, "metadata: "),
        ({"to": NUMBER, "metadata": {"X-A": "b" * 257}}, "metadata.X-A: "),
        ({"to": NUMBER, "trunk": "nowhere"}, "there is no trunk"),
    ],
)
async def test_field_that_is_wrong_is_named(site: PhoneSite, body: dict[str, Any], field: str) -> None:
    status, error = await site.post("/v1/calls", body)
    assert (status, error["code"]) == (400, "bad_request")
    assert error["message"].startswith(field)
    assert error["hint"]
    assert await site.get("/v1/calls") == {"calls": []}


@pytest.mark.parametrize(
    ("path", "body", "known"),
    [
        ("", {"to": NUMBER, "personna": "x"}, "are to, from, trunk, persona, voice, seed, metadata, wait"),
        ("", {"to": NUMBER, "from_": "1"}, "are to, from, trunk, persona, voice, seed, metadata, wait"),
        ("/{id}/transfer", {"to": NUMBER, "wait": "answered"}, "is to"),
        ("/{id}/dtmf", {"digits": "1", "duration_ms": 100}, "is digits"),
    ],
)
async def test_field_that_is_unknown_is_refused_with_those_that_are_known(
    site: PhoneSite, path: str, body: dict[str, Any], known: str
) -> None:
    call = await site.answered()
    status, error = await site.post("/v1/calls" + path.format(**call), body)
    unknown = list(body)[-1]
    assert (status, error["code"], error["message"]) == (400, "bad_request", f"{unknown} is unknown")
    assert error["hint"] == f"known {known}"
    assert len((await site.get("/v1/calls"))["calls"]) == 1 and not site.phone.count("REFER")
    assert not site.world.leg.digits


@pytest.mark.parametrize("body", ['{"reason": "busy"}', "{", "[]"])
async def test_hangup_that_says_more_than_can_be_said_is_refused(site: PhoneSite, body: str) -> None:
    call = await site.answered()
    response = await site.client.post(f"/v1/calls/{call['id']}/hangup", data=body)
    error = await response.json()
    assert (response.status, error["code"]) == (400, "bad_request") and error["hint"]
    assert (await site.get(f"/v1/calls/{call['id']}"))["state"] == "answered"


@pytest.mark.parametrize("body", ["", " \n", "{}"])
async def test_hangup_without_anything_to_say_hangs_up(site: PhoneSite, body: str) -> None:
    call = await site.answered()
    response = await site.client.post(f"/v1/calls/{call['id']}/hangup", data=body)
    assert (response.status, (await response.json())["state"]) == (200, "ended")


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"to": "\\ud800"}', "[" * 50_000])
async def test_body_that_is_no_json_object_is_refused(site: PhoneSite, body: str) -> None:
    response = await site.client.post("/v1/calls", data=body)
    assert response.status == 400
    assert (await response.json())["code"] == "bad_request"


async def test_body_over_its_limit_is_refused(site: PhoneSite) -> None:
    status, error = await site.post("/v1/calls", {"to": NUMBER, "persona": "x" * 70_000})
    assert (status, error["code"]) == (413, "too_large")


INJECTIONS = [
    "+15550100\r\nX-Evil: 1",
    "+15550100\nX-Evil: 1",
    "+15550100\x00",
    '+15550100"',
    "+15550100>",
    "<sip:+15550100@evil.example>",
    "+15550100@evil.example",
    "+15550100;user=phone",
    "+15550100?X-Evil=1",
    "+15550100%0d%0aX-Evil:%201",
    "sip:+15550100%0d%0aX-Evil%3a1@evil.example",
    "sip:+15550100%3e%22@evil.example",
    "sip:+15550100@evil.example>\r\nX-Evil: 1",
    "+15550100\u2028X-Evil: 1",
    "+15550100 ",
    "\uff0b15550100",
]


@pytest.mark.parametrize("field", ["to", "from"])
@pytest.mark.parametrize("text", INJECTIONS)
async def test_nothing_can_be_smuggled_into_a_header_by_a_number(site: PhoneSite, text: str, field: str) -> None:
    status, _ = await site.post("/v1/calls", {"to": NUMBER, field: text})
    await site.world.settle()
    assert status == 400
    assert not site.phone.received


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x00", "a\x7f", "a\u2028b", "a\u202eb"])
async def test_nothing_can_be_smuggled_in_by_the_value_of_a_header(site: PhoneSite, value: str) -> None:
    status, error = await site.post("/v1/calls", {"to": NUMBER, "metadata": {"X-Note": value}})
    assert status == 400
    assert error["message"].startswith("metadata.X-Note: ")


@pytest.mark.parametrize("name", ["X-A: b\r\nX-Evil", "X-A\n", "X-\u00e4", "X-", "X-a_b", "", "a b", "a:b"])
async def test_nothing_can_be_smuggled_in_by_the_name_of_a_header(site: PhoneSite, name: str) -> None:
    status, error = await site.post("/v1/calls", {"to": NUMBER, "metadata": {name: "1"}})
    assert status == 400
    assert error["message"].startswith("metadata.")


async def test_quotes_and_escapes_in_a_header_stay_what_they_are(site: PhoneSite) -> None:
    value = '"a" <b>; c=%0d%0a, \u00e4'
    await site.dial(metadata={"X-Note": value})
    assert site.phone.last_request("INVITE").headers.get("X-Note") == value


async def test_number_that_may_not_be_dialled_is_refused(site: PhoneSite) -> None:
    status, error = await site.post("/v1/calls", {"to": "+4930123456"})
    assert (status, error["code"]) == (403, "number_not_allowed")


async def test_voice_that_there_is_not_is_refused(site: PhoneSite) -> None:
    status, error = await site.post("/v1/calls", {"to": NUMBER, "voice": "tenor"})
    assert (status, error["code"]) == (422, "unknown_voice")
    assert site.phone.count("INVITE") == 0
    assert await site.get("/v1/calls") == {"calls": []}


async def test_pattern_in_the_place_of_a_number_is_refused(site: PhoneSite) -> None:
    status, error = await site.post("/v1/calls", {"to": "+1555*"})
    assert (status, error["code"]) == (422, "invalid_number")
    assert error["message"] == "'+1555*' is a pattern, not a number"
    assert await site.get("/v1/calls") == {"calls": []}


async def test_server_that_can_call_nobody_says_what_to_do() -> None:
    async with phone_site(trunks=(replace(TRUNK, target=None),)) as site:
        status, error = await site.post("/v1/calls", {"to": NUMBER})
    assert (status, error["code"]) == (400, "bad_request")
    assert "no trunk of this server has a `target`" in error["message"]
    assert "[[sip.trunks]]" in error["hint"]


@pytest.mark.parametrize("path", ["", "/{id}/transfer", "/{id}/dtmf"])
async def test_hint_shows_a_body_that_can_be_sent(site: PhoneSite, path: str) -> None:
    call = await site.answered()
    status, error = await site.post("/v1/calls" + path.format(**call), {})
    assert status == 400
    begin = error["hint"].index("{")
    body, _ = json.JSONDecoder().raw_decode(error["hint"][begin:])
    waiting = asyncio.ensure_future(site.post("/v1/calls" + path.format(**call), body))
    if path.endswith("transfer"):
        await site.until(lambda: bool(site.phone.count("REFER")))
        site.phone.answer(202, to="REFER")
    assert (await waiting)[0] in (200, 201, 202)


async def test_full_server_says_when_to_try_again() -> None:
    async with phone_site(slots=1) as site:
        await site.dial()
        response = await site.client.post("/v1/calls", json={"to": NUMBER})
        assert response.status == 503
        assert response.headers["Retry-After"] == "5"
        assert (await response.json())["code"] == "engine_full"


async def test_trunk_must_be_named_where_there_are_two() -> None:
    other = replace(TRUNK, name="other", networks=(), target=Target("udp", "203.0.113.1", 5060))
    async with phone_site(trunks=(TRUNK, other)) as site:
        status, error = await site.post("/v1/calls", {"to": NUMBER})
        assert status == 400
        assert error["hint"] == "one of: carrier, other"
        await site.dial(trunk="carrier")


# ---- calls that there are --------------------------------------------------------------------------------------------


async def test_list_has_live_calls_and_those_that_have_just_ended(site: PhoneSite) -> None:
    first, second = await site.dial(), await site.dial()
    await site.world.advance(2)
    await site.post(f"/v1/calls/{first['id']}/hangup")
    calls = (await site.get("/v1/calls"))["calls"]
    assert [(call["id"], call["end_reason"]) for call in calls] == [(second["id"], None), (first["id"], "hangup")]
    await site.world.advance(70)
    assert [call["id"] for call in (await site.get("/v1/calls"))["calls"]] == [second["id"]]
    assert (await site.client.get(f"/v1/calls/{first['id']}")).status == 404


async def test_incoming_call_is_listed_with_who_calls(site: PhoneSite) -> None:
    await site.world.answered(site.phone, headers="X-Customer: 7")
    (call,) = (await site.get("/v1/calls"))["calls"]
    assert (call["direction"], call["state"]) == ("inbound", "answered")
    assert (call["from"], call["to"], call["metadata"]) == ("1001", NUMBER, {"X-Customer": "7"})


async def test_hanging_up_twice_is_fine(site: PhoneSite) -> None:
    call = await site.answered()
    for _ in range(2):
        status, ended = await site.post(f"/v1/calls/{call['id']}/hangup")
        assert (status, ended["state"], ended["end_reason"]) == (200, "ended", "hangup")
    await site.world.settle()
    assert site.phone.count("BYE") == 1


async def test_digits_are_pressed(site: PhoneSite) -> None:
    call = await site.answered()
    assert (await site.post(f"/v1/calls/{call['id']}/dtmf", {"digits": "12#a"}))[0] == 200
    assert site.world.leg.digits == ["12#A"]


@pytest.mark.parametrize("body", [{}, {"digits": ""}, {"digits": 12}, {"digits": "1x"}, {"digits": "1" * 33}])
async def test_what_are_no_digits_is_refused(site: PhoneSite, body: dict[str, Any]) -> None:
    call = await site.answered()
    status, error = await site.post(f"/v1/calls/{call['id']}/dtmf", body)
    assert (status, error["code"]) == (400, "bad_request")
    assert "digits" in error["message"]


@pytest.mark.parametrize(
    ("to", "refer_to"),
    [
        ("+15550142", "<tel:+15550142>"),
        ("sip:queue@pbx.example;transport=tcp", "<sip:queue@pbx.example;transport=tcp>"),
        ("tel:+15550142", "<tel:+15550142>"),
    ],
)
async def test_call_is_transferred(site: PhoneSite, to: str, refer_to: str) -> None:
    call = await site.answered()
    waiting = asyncio.ensure_future(site.post(f"/v1/calls/{call['id']}/transfer", {"to": to}))
    await site.until(lambda: bool(site.phone.count("REFER")))
    assert site.phone.last_request("REFER").headers.get("Refer-To") == refer_to
    site.phone.answer(202, to="REFER")
    status, answered = await waiting
    assert (status, answered["state"]) == (202, "answered")


async def test_transfer_that_is_refused_says_so(site: PhoneSite) -> None:
    call = await site.answered()
    waiting = asyncio.ensure_future(site.post(f"/v1/calls/{call['id']}/transfer", {"to": "+15550142"}))
    await site.until(lambda: bool(site.phone.count("REFER")))
    site.phone.answer(603, to="REFER")
    status, error = await waiting
    assert (status, error["code"]) == (502, "transfer_refused")
    assert "603" in error["message"]


@pytest.mark.parametrize(
    "to", ["", "queue", "http://x.example", "sip:a@b>\r\nX-Evil: 1", "sip:a@b\u2028", 'sip:"a"@b', "tel:<1>", " +1"]
)
async def test_nothing_can_be_smuggled_into_a_transfer(site: PhoneSite, to: str) -> None:
    call = await site.answered()
    status, _ = await site.post(f"/v1/calls/{call['id']}/transfer", {"to": to})
    assert status == 400
    assert not any(isinstance(message, Request) and message.method == "REFER" for message in site.phone.received)


@pytest.mark.parametrize(("action", "body"), [("dtmf", {"digits": "1"}), ("transfer", {"to": "+15550142"})])
async def test_call_that_is_not_answered_takes_no_orders(site: PhoneSite, action: str, body: Any) -> None:
    call = await site.dial()
    status, error = await site.post(f"/v1/calls/{call['id']}/{action}", body)
    assert (status, error["code"]) == (409, "not_connected")


@pytest.mark.parametrize(("action", "body"), [("dtmf", {"digits": "1"}), ("transfer", {"to": "+15550142"})])
async def test_call_that_has_ended_says_so(site: PhoneSite, action: str, body: Any) -> None:
    call = await site.answered()
    await site.post(f"/v1/calls/{call['id']}/hangup")
    status, error = await site.post(f"/v1/calls/{call['id']}/{action}", body)
    assert (status, error["code"], error["message"]) == (409, "not_connected", "this call has ended: hangup")


@pytest.mark.parametrize("path", ["", "/hangup", "/transfer", "/dtmf", "/events"])
async def test_call_that_there_is_not_is_not_found(site: PhoneSite, path: str) -> None:
    ask = site.client.get if path in ("", "/events") else site.client.post
    response = await ask(f"/v1/calls/call_nowhere{path}")
    assert response.status == 404
    assert (await response.json())["code"] == "call_not_found"


# ---- who may ---------------------------------------------------------------------------------------------------------

ROUTES = [
    ("POST", "/v1/calls"),
    ("GET", "/v1/calls"),
    ("GET", "/v1/calls/events"),
    ("GET", "/v1/calls/call_1"),
    ("GET", "/v1/calls/call_1/events"),
    ("POST", "/v1/calls/call_1/hangup"),
    ("POST", "/v1/calls/call_1/transfer"),
    ("POST", "/v1/calls/call_1/dtmf"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_without_the_key_there_is_nothing(method: str, path: str) -> None:
    async with phone_site(api_key=KEY) as site:
        assert (await site.client.request(method, path, json={"to": NUMBER})).status == 401
        bearer = {"Authorization": f"Bearer {KEY}"}
        assert (await site.client.request(method, path, json={"to": NUMBER}, headers=bearer)).status != 401


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_page_of_another_origin_may_not(site: PhoneSite, method: str, path: str) -> None:
    response = await site.client.request(method, path, headers={"Origin": "https://evil.example"})
    assert response.status == 403


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_server_without_telephony_says_so(method: str, path: str) -> None:
    async with phone_site(on=False) as site:
        response = await site.client.request(method, path, json={"to": NUMBER})
        error = await response.json()
        assert (response.status, error["code"]) == (501, "telephony_off")
        assert "listen" in error["hint"]


@pytest.mark.parametrize("on", [True, False])
async def test_config_tells_whether_there_are_phone_calls_and_not_of_which_trunks(on: bool) -> None:
    async with phone_site(on=on) as site:
        config = await (await site.client.get("/v1/config")).json()
        assert config["telephony"] == {"on": on}
        assert TRUNK.name not in str(config)
