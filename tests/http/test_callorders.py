"""Orders to a phone call that cannot be carried out, or not now: which status, and in which words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rtc_server.errors import DigitsPending
from tests.http.phonesite import NUMBER, PhoneSite, phone_site

THIRD = "+15550142"


@pytest.fixture
async def site() -> AsyncIterator[PhoneSite]:
    async with phone_site() as site:
        yield site


async def transferring(site: PhoneSite, call: dict[str, Any]) -> asyncio.Task[tuple[int, Any]]:
    """The answer to a transfer that the other end has been asked for."""
    waiting = asyncio.ensure_future(site.post(f"/v1/calls/{call['id']}/transfer", {"to": THIRD}))
    await site.until(lambda: bool(site.phone.count("REFER")))
    return waiting


async def test_second_transfer_is_a_conflict_until_the_first_is_over(site: PhoneSite) -> None:
    call = await site.answered()
    first = await transferring(site, call)
    status, error = await site.post(f"/v1/calls/{call['id']}/transfer", {"to": THIRD})
    assert (status, error["code"]) == (409, "transfer_pending") and error["hint"]
    site.phone.answer(202, to="REFER")
    assert (await first)[0] == 202
    assert (await site.post(f"/v1/calls/{call['id']}/transfer", {"to": THIRD}))[0] == 409
    assert site.phone.count("REFER") == 1


async def test_caller_who_hangs_up_while_a_transfer_is_asked_for_is_not_connected(site: PhoneSite) -> None:
    call = await site.answered()
    waiting = await transferring(site, call)
    site.phone.join(site.phone.last_request("INVITE"))
    site.phone.send("BYE")
    status, error = await waiting
    assert (status, error["code"]) == (409, "not_connected") and error["hint"]
    assert (await site.get(f"/v1/calls/{call['id']}"))["end_reason"] == "peer_closed"


async def test_hanging_up_while_a_transfer_is_asked_for_ends_the_wait(site: PhoneSite) -> None:
    call = await site.answered()
    waiting = await transferring(site, call)
    assert (await site.post(f"/v1/calls/{call['id']}/hangup"))[0] == 200
    status, error = await waiting
    assert (status, error["code"]) == (409, "not_connected")


async def test_transfer_that_nobody_answers_says_that_nobody_did(site: PhoneSite) -> None:
    call = await site.answered()
    waiting = await transferring(site, call)
    await site.world.advance(33)  # the OPTIONS that is sent meanwhile is not answered either
    status, error = await asyncio.wait_for(waiting, 5)
    assert (status, error["code"]) == (502, "transfer_refused")
    assert "gave no answer" in error["message"] and "408" not in error["message"]


async def test_more_digits_than_may_wait_are_a_conflict(site: PhoneSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(digits: str) -> None:
        raise DigitsPending("more than 64 digits wait to be sent", hint="a little later")

    call = await site.answered()
    monkeypatch.setattr(site.world.leg, "send_digits", full)
    status, error = await site.post(f"/v1/calls/{call['id']}/dtmf", {"digits": "1"})
    assert (status, error["code"]) == (409, "digits_pending")


@pytest.mark.parametrize(
    ("path", "body", "message", "hint"),
    [
        ("/{id}/transfer", b'{"to": "+1555 01"}', "'+1555 01' is no number, and no SIP or tel URI", "+15550100"),
        ("/{id}/dtmf", b'{"digits": "%s"}' % (b"1" * 33), "33 digits are too many", "32"),
        ("/{id}/dtmf", b'{"digits": "x"}', "'x' are no digits", "0-9, A-D, * and #"),
        ("/{id}/dtmf", b'{"digits": "1", "for": 1}', "for is unknown", "known is digits"),
        ("/{id}/dtmf", b"\xff\xfe", "the body is not UTF-8", "UTF-8"),
        ("", b'{"to": "+1", "metadata": {"X-": "a"}}', "metadata.X-: a name has letters", "metadata"),
        ("", b'{"to": "+1", "metadata": {"X-A": "a\\n"}}', "metadata.X-A: a value is one line", "metadata"),
    ],
)
async def test_what_is_wrong_is_told_in_our_own_words(
    site: PhoneSite, path: str, body: bytes, message: str, hint: str
) -> None:
    call = await site.answered()
    response = await site.client.post("/v1/calls" + path.format(**call), data=body)
    error = await response.json()
    assert (response.status, error["code"]) == (400, "bad_request")
    assert error["message"].startswith(message)
    assert hint in error["hint"]


async def test_number_that_may_not_be_called_has_advice(site: PhoneSite) -> None:
    status, error = await site.post("/v1/calls", {"to": NUMBER.replace("+1", "+49")})
    assert (status, error["code"]) == (403, "number_not_allowed") and "may_dial" in error["hint"]
