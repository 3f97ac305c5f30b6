"""Only the owner of a conversation can take it over."""

from __future__ import annotations

import pytest

from rtc_server import events
from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import EngineDraining, EngineFull, SessionNotFound, TooManyResumes
from tests.session.conftest import House


async def test_only_the_token_opens_a_conversation(house: House) -> None:
    session, _ = await house.live_call()
    assert house.admission.resume(session.token.secret) is session
    for guess in ("", session.id, session.token.secret[:-1], session.token.secret + "A", "\ud800", "x" * 10_000):
        with pytest.raises(SessionNotFound):
            house.admission.resume(guess)


async def test_the_token_is_no_longer_good_when_the_conversation_has_ended(house: House) -> None:
    session, _ = await house.live_call()
    secret = session.token.secret
    session.close("test")
    with pytest.raises(SessionNotFound):
        house.admission.resume(secret)
    await session.wait_closed()
    with pytest.raises(SessionNotFound):
        house.admission.resume(secret)


async def test_the_token_has_256_bits_is_nobody_elses_and_stands_in_no_representation(house: House) -> None:
    (first, leg), (second, _) = await house.live_call(), await house.live_call()
    assert len(first.token.secret) >= 43 and first.token.secret != second.token.secret
    assert first.token.secret not in repr(first.token)
    created = leg.events[0]
    assert isinstance(created, events.SessionCreated) and created.resume_token == first.token.secret
    assert first.token.secret not in repr(leg.numbered)


async def test_a_full_server_lets_its_own_caller_in_and_nobody_else(house: House) -> None:
    session, leg = await house.live_call()
    await house.live_call()
    leg.end()
    with pytest.raises(EngineFull) as refusal:
        await house.admission.admit(SessionPrompt())
    assert refusal.value.retry_after_s
    assert house.admission.resume(session.token.secret) is session


async def test_a_draining_server_lets_its_own_caller_in_and_says_how_long(house: House) -> None:
    session, old = await house.live_call()
    house.admission.draining = True
    session.announce_end(60, "server_stopping")
    old.end()
    with pytest.raises(EngineDraining):
        await house.admission.admit(SessionPrompt())
    house.clock.now += 5
    new = house.add_leg(house.admission.resume(session.token.secret))
    assert new.events[-1] == events.SessionEnding(in_s=55.0, reason="server_stopping")


async def test_a_client_that_loops_is_told_to_wait(house: House) -> None:
    session, _ = await house.live_call()
    for _ in range(5):
        house.admission.resume(session.token.secret)
    with pytest.raises(TooManyResumes) as refusal:
        house.admission.resume(session.token.secret)
    assert (refusal.value.http_status, refusal.value.retry_after_s) == (429, 5)
    house.clock.now += 10
    house.admission.resume(session.token.secret)
