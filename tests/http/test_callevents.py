"""What applications hear of calls over WebSockets, and what becomes of those that do not listen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.http.conftest import KEY
from tests.http.phonesite import PhoneSite, phone_site
from tests.transports.sip.call.phone import sdp


@pytest.fixture
async def site() -> AsyncIterator[PhoneSite]:
    async with phone_site() as site:
        yield site


async def rest_of(socket: Any) -> list[dict[str, Any]]:
    async with asyncio.timeout(5):
        return [message.json() async for message in socket]


async def test_events_come_as_json_until_the_call_has_ended(site: PhoneSite) -> None:
    call = await site.dial()
    async with site.client.ws_connect(f"/v1/calls/{call['id']}/events") as socket:
        site.phone.answer(180)
        site.phone.answer(183, sdp())
        site.phone.answer(200, sdp())
        await site.world.settle()
        site.world.call.feed.tell("text", text="Hello")
        site.phone.join(site.phone.last_request("INVITE"))
        site.phone.send("BYE")
        assert await rest_of(socket) == [
            {"type": "ringing"},
            {"type": "early_media"},
            {"type": "answered"},
            {"type": "text", "text": "Hello"},
            {"type": "ended", "reason": "peer_closed"},
        ]
        assert socket.close_code == 1000


async def test_call_that_has_ended_still_tells_what_it_was(site: PhoneSite) -> None:
    call = await site.dial()
    site.phone.answer(486)
    await site.world.settle()
    async with site.client.ws_connect(f"/v1/calls/{call['id']}/events") as socket:
        assert await rest_of(socket) == [{"type": "ended", "reason": "busy", "detail": "486"}]
        assert socket.close_code == 1000


async def test_slow_reader_loses_text_first_and_is_told(site: PhoneSite) -> None:
    call = await site.answered()
    async with site.client.ws_connect(f"/v1/calls/{call['id']}/events") as socket:
        assert (await socket.receive_json())["type"] == "answered"
        feed = site.world.call.feed
        for number in range(300):  # in one turn of the loop: nobody can read meanwhile
            feed.tell("dtmf" if number % 100 == 0 else "text")
        feed.tell("ended", reason="hangup")
        events = await rest_of(socket)
        kinds = [event["type"] for event in events]
        assert kinds.count("dtmf") == 3
        assert kinds[-1] == "ended"
        assert sum(event.get("count", 0) for event in events) + kinds.count("text") == 297
        assert "dropped" in kinds


async def test_only_so_many_may_listen_to_a_call(site: PhoneSite) -> None:
    call = await site.dial()
    path = f"/v1/calls/{call['id']}/events"
    sockets = [await site.client.ws_connect(path) for _ in range(16)]
    response = await site.client.get(path)
    assert response.status == 503
    assert (await response.json())["code"] == "too_many_subscribers"
    await sockets[0].close()
    await site.until(lambda: len(site.world.call.feed._subscriptions) == 15)
    await (await site.client.ws_connect(path)).close()


async def test_reader_that_answers_no_ping_is_let_go(site: PhoneSite) -> None:
    call = await site.dial()
    async with site.client.ws_connect(f"/v1/calls/{call['id']}/events", autoping=False) as socket:
        kinds = []
        async with asyncio.timeout(5):
            while (message := await socket.receive()).type is aiohttp.WSMsgType.PING:
                kinds.append(message.type)
        assert message.type is aiohttp.WSMsgType.CLOSE
        assert message.data == 1001
        assert len(kinds) == 3
    await site.until(lambda: not site.world.call.feed._subscriptions)


async def test_reader_that_answers_pings_stays_and_may_say_what_it_likes(site: PhoneSite) -> None:
    call = await site.dial()
    async with site.client.ws_connect(f"/v1/calls/{call['id']}/events") as socket:
        for message in ("{}", "\x00", "x" * 1000):
            await socket.send_str(message)
        reading = asyncio.ensure_future(socket.receive_json())
        await asyncio.sleep(0.1)  # ten pings long
        assert not reading.done()
        site.phone.answer(180)
        assert await reading == {"type": "ringing"}


async def test_listener_that_goes_leaves_nothing_behind(site: PhoneSite) -> None:
    call = await site.dial()
    for path in (f"/v1/calls/{call['id']}/events", "/v1/calls/events"):
        await (await site.client.ws_connect(path)).close()
    feeds = (site.world.call.feed, site.world.agent.calls.feed)
    await site.until(lambda: not any(feed._subscriptions for feed in feeds))
    await site.until(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("call-events")])


async def test_request_that_is_no_websocket_takes_no_place(site: PhoneSite) -> None:
    call = await site.dial()
    for path in (f"/v1/calls/{call['id']}/events", "/v1/calls/events"):
        assert (await site.client.get(path)).status == 400
    assert not site.world.call.feed._subscriptions


async def test_events_of_all_calls_go_on_and_introduce_what_comes_in(site: PhoneSite) -> None:
    async with site.client.ws_connect("/v1/calls/events") as socket:
        await site.world.answered(site.phone)
        ringing, answered = await socket.receive_json(), await socket.receive_json()
        assert ringing["type"] == "ringing"
        assert ringing["call_id"] == ringing["call"]["id"] == site.world.call.id
        assert (ringing["call"]["direction"], ringing["call"]["from"]) == ("inbound", "1001")
        assert answered == {"call_id": ringing["call_id"], "type": "answered"}
        site.phone.send("BYE")
        await site.world.settle()
        ended = await socket.receive_json()
        assert (ended["type"], ended["call"]["end_reason"]) == ("ended", "peer_closed")
        await site.world.ringing(site.world.phone())
        again = await socket.receive_json()
        assert again["type"] == "ringing"
        assert again["call_id"] != ringing["call_id"]


async def test_slow_reader_of_all_calls_is_told_that_events_were_dropped(site: PhoneSite) -> None:
    async with site.client.ws_connect("/v1/calls/events") as socket:
        await site.dial()
        for _ in range(300):
            site.world.call.feed.tell("text")
        assert (await socket.receive_json())["type"] == "dropped"
        assert (await socket.receive_json())["type"] == "text"


async def test_key_may_stand_in_the_query_as_with_other_sockets() -> None:
    async with phone_site(api_key=KEY) as site:
        await (await site.client.ws_connect(f"/v1/calls/events?token={KEY}")).close()
        assert (await site.client.get("/v1/calls/events?token=wrong")).status == 401
