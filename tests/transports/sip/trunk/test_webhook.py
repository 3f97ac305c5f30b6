from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.transports.sip.trunk.webhook import (
    MAX_ANSWER_BYTES,
    SIGNATURE_HEADER,
    Accept,
    IncomingCall,
    Reject,
    Webhook,
    WebhookError,
    read_decision,
)
from tests.logs import captured_logs, entry_of

SECRET = "a secret of the two of us"
NOW_S = 1_700_000_000.9
CALL = IncomingCall("call-1", "carrier", "+15550100", "+15550199", {"X-Account": "7"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Start = Callable[..., Awaitable[Webhook]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts an application with this handler, and the webhook that asks it."""
    servers: list[TestServer] = []
    webhooks: list[Webhook] = []

    async def start(handler: Handler, **options: Any) -> Webhook:
        app = web.Application()
        app.router.add_post("/calls", handler)
        server = TestServer(app)
        await server.start_server()
        servers.append(server)
        webhook = Webhook(str(server.make_url("/calls")), SECRET, wall_clock=lambda: NOW_S, **options)
        webhooks.append(webhook)
        return webhook

    yield start
    for webhook in webhooks:
        await webhook.close()
    for server in servers:
        await server.close()


def answering(content: Any) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(content)

    return handler


async def test_application_takes_a_call_as_somebody(start: Start) -> None:
    webhook = await start(answering({"action": "accept", "persona": "You are Ann.", "voice": "NATF1", "more": [1]}))
    assert await webhook.decide(CALL) == Accept("You are Ann.", "NATF1")


async def test_application_rejects_a_call_with_its_status(start: Start) -> None:
    webhook = await start(answering({"action": "reject", "status": 486}))
    assert await webhook.decide(CALL) == Reject(486)


async def test_question_says_who_calls_and_is_signed(start: Start) -> None:
    seen: list[tuple[str, bytes]] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append((request.headers[SIGNATURE_HEADER], await request.read()))
        return web.json_response({"action": "accept"})

    assert await (await start(handler)).decide(CALL) == Accept()
    ((signature, body),) = seen
    assert json.loads(body) == {
        "call_id": "call-1",
        "trunk": "carrier",
        "from": "+15550100",
        "to": "+15550199",
        "headers": {"X-Account": "7"},
    }
    expected = hmac.new(SECRET.encode(), b"1700000000." + body, hashlib.sha256).hexdigest()
    assert signature == f"t=1700000000,v1={expected}"


@pytest.mark.parametrize(("on_failure", "decision"), [("accept", Accept()), ("reject", Reject(480))])
async def test_silence_of_the_application_is_decided_by_the_setting(
    start: Start, on_failure: str, decision: Accept | Reject
) -> None:
    asked = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.sleep(60)
        raise AssertionError("nobody waits so long")

    webhook = await start(handler, timeout_s=0.1, on_failure=on_failure)
    with captured_logs() as logs:
        decided = await webhook.decide(CALL)
    assert decided == decision
    assert asked.is_set()
    told = entry_of(logs, "webhook gave no decision")
    assert (told["call_id"], told["error"]) == ("call-1", "no answer within 0.1 s")
    assert isinstance(decided, Accept) or decided.failure == "no answer within 0.1 s"


async def test_application_that_decides_itself_has_not_failed(start: Start) -> None:
    decided = await (await start(answering({"action": "reject", "status": 480}))).decide(CALL)
    assert isinstance(decided, Reject) and decided.failure is None


async def test_answer_that_drips_is_cut_off_in_time(start: Start) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b" ")
            await asyncio.sleep(0.01)
        return response

    webhook = await start(handler, timeout_s=0.1)
    assert await asyncio.wait_for(webhook.decide(CALL), 5) == Reject(480)


async def test_answer_without_an_end_is_not_kept(start: Start) -> None:
    sent = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(2000):
            await response.write(b" " * 65_536)
            sent += 65_536
        return response

    assert await (await start(handler)).decide(CALL) == Reject(480)
    assert sent < 100 * MAX_ANSWER_BYTES


@pytest.mark.parametrize("status", [201, 302, 404, 500])
async def test_any_status_but_200_is_a_failure(start: Start, status: int) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response({"action": "accept"}, status=status, headers={"Location": "/calls"})

    decided = await (await start(handler)).decide(CALL)
    assert decided == Reject(480)
    assert isinstance(decided, Reject) and decided.failure == f"HTTP status {status}"


async def test_application_that_closes_a_connection_which_it_has_not_said_to_close_loses_no_call() -> None:
    """As many HTTP servers do with connections on which nothing is asked for a moment."""
    answer = b'{"action": "accept"}'
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
        asked += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
        await writer.drain()
        await reader.read(1)  # until the next question, or until we close
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    webhook = Webhook(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/calls", SECRET)
    assert [await webhook.decide(CALL) for _ in range(3)] == [Accept()] * 3
    assert asked == 3
    await webhook.close()
    server.close()


async def test_application_that_is_not_there_is_a_failure(unused_tcp_port: int) -> None:
    webhook = Webhook(f"http://127.0.0.1:{unused_tcp_port}/calls", SECRET, on_failure="accept")
    assert await webhook.decide(CALL) == Accept()
    await webhook.close()
    assert await webhook.decide(CALL) == Accept()
    await webhook.close()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"accept",
        b"[]",
        b"{}",
        b'{"action": "answer"}',
        b'{"action": ["accept"]}',
        b'{"action": "reject", "status": 200}',
        b'{"action": "reject", "status": "486"}',
        b'{"action": "reject", "status": true}',
        b'{"action": "reject", "status": 401}',
        b'{"action": "accept", "persona": 7}',
        b'{"action": "accept", "persona": "\\ud800"}',
        b'{"action": "accept", "voice": ["v"]}',
        b"[" * 100_000,
        b"\xff\xfe",
        b"9" * 10_000,
    ],
)
def test_malformed_answer_is_no_decision(content: bytes) -> None:
    with pytest.raises(WebhookError):
        read_decision(content)


@pytest.mark.parametrize("status", [401, 405, 407, 415, 420, 421, 422, 423, 469, 489, 494])
def test_status_that_would_need_a_header_which_nobody_has_given_is_no_decision(status: int) -> None:
    with pytest.raises(WebhookError, match=f"{status} needs a header"):
        read_decision(json.dumps({"action": "reject", "status": status}).encode())


@pytest.mark.parametrize("status", [400, 403, 404, 480, 486, 488, 503, 600, 603, 608, 699])
def test_any_other_status_may_be_chosen(status: int) -> None:
    assert read_decision(json.dumps({"action": "reject", "status": status}).encode()) == Reject(status)


@pytest.mark.parametrize("name", ["persona", "voice"])
def test_what_is_too_long_is_for_the_engine_to_say(name: str) -> None:
    assert read_decision(json.dumps({"action": "accept", name: "x" * 100_000}).encode()) == Accept(
        **{name: "x" * 100_000}
    )


_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["action", "persona", "voice", "status"]), _JSON | st.sampled_from(["accept", "reject"])
    )
)
def test_any_object_is_a_decision_or_a_webhook_error(answer: dict[str, Any]) -> None:
    try:
        decision = read_decision(json.dumps(answer).encode())
    except WebhookError:
        return
    assert isinstance(decision, Accept if answer["action"] == "accept" else Reject)
