"""The server calls SIPp."""

from __future__ import annotations

import pytest

from tests.e2e.sip import scenarios
from tests.e2e.sip.sipp import Sipp
from tests.e2e.sip.sipserver import SipServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]


async def test_a_call_is_answered_and_we_hang_up(server: SipServer, sipp: Sipp) -> None:
    async with sipp.answering(scenarios.answer(), server.callee_port):
        call = await server.dial()
        async with server.feed(call) as feed:
            await feed.until("answered")
            await server.post(f"/{call}/hangup")
            assert (await feed.until("ended"))["reason"] == "hangup"
    assert feed.kinds() == ["ringing", "answered", "ended"]


async def test_a_call_is_answered_and_they_hang_up(server: SipServer, sipp: Sipp) -> None:
    async with (
        sipp.answering(scenarios.answer_and_hang_up(), server.callee_port),
        server.feed(await server.dial()) as feed,
    ):
        assert (await feed.until("ended"))["reason"] == "peer_closed"
    assert feed.kinds() == ["ringing", "answered", "ended"]


@pytest.mark.parametrize(("status", "reason"), [(486, "busy"), (603, "declined"), (404, "no_such_number")])
async def test_what_a_refusal_means_is_told(server: SipServer, sipp: Sipp, status: int, reason: str) -> None:
    async with sipp.answering(scenarios.decline(status), server.callee_port), server.feed(await server.dial()) as feed:
        assert (await feed.until("ended"))["reason"] == reason
    assert feed.kinds() == ["ringing", "ended"]


async def test_nobody_answers_in_time(server: SipServer, sipp: Sipp) -> None:
    async with (
        sipp.answering(scenarios.ring_until_cancelled(), server.callee_port),
        server.feed(await server.dial()) as feed,
    ):
        assert (await feed.until("ended"))["reason"] == "no_answer"


async def test_we_hang_up_while_it_rings(server: SipServer, sipp: Sipp) -> None:
    async with sipp.answering(scenarios.ring_until_cancelled(), server.callee_port):
        call = await server.dial()
        async with server.feed(call) as feed:
            await feed.until("ringing")
            await server.post(f"/{call}/hangup")
            assert (await feed.until("ended"))["reason"] == "hangup"


async def test_an_announcement_is_no_answer(server: SipServer, sipp: Sipp) -> None:
    async with sipp.answering(scenarios.early_media(), server.callee_port):
        call = await server.dial()
        async with server.feed(call) as feed:
            await feed.until("answered")
            await server.post(f"/{call}/hangup")
            await feed.until("ended")
    assert feed.kinds() == ["early_media", "answered", "ended"]


async def test_a_trunk_that_asks_for_a_password_gets_it(server: SipServer, sipp: Sipp) -> None:
    async with sipp.answering(scenarios.answer_who_knows_password(), server.callee_port):
        call = await server.dial(trunk="gate")
        async with server.feed(call) as feed:
            await feed.until("answered")
            await server.post(f"/{call}/hangup")
            await feed.until("ended")


async def test_a_trunk_that_wants_a_password_which_we_do_not_have(server: SipServer, sipp: Sipp) -> None:
    async with (
        sipp.answering(scenarios.decline_without_password(), server.callee_port),
        server.feed(await server.dial(trunk="phones")) as feed,
    ):
        assert (await feed.until("ended"))["reason"] == "unauthorized"
