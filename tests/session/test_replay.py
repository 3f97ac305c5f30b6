"""What a caller hears of the time in which it was away."""

from __future__ import annotations

import pytest

from rtc_server import events
from tests.session.conftest import House
from tests.session.fakes import FakeLeg


async def test_numbers_run_on_over_the_legs_and_each_leg_hears_them_in_order(house: House) -> None:
    session, old = await house.live_call()
    house.engine.text = " word"
    await house.tick(20, alive=old)
    old.end()
    await house.tick(5)
    new = house.add_leg(session)
    await house.tick(20, alive=new)
    heard = [[numbered.seq for numbered in leg.numbered] for leg in (old, new)]
    assert heard[0] == list(range(1, len(heard[0]) + 1))
    assert heard[1] == sorted(set(heard[1])) and heard[1][0] == 1
    only_new = [seq for seq in heard[1] if seq > heard[0][-1]]
    assert only_new == list(range(only_new[0], only_new[0] + len(only_new)))


async def test_events_behind_the_last_one_that_the_client_knows_are_replayed_without_times(house: House) -> None:
    session, old = await house.live_call()
    for word in "abcdef":
        house.engine.text = word
        await house.tick(1, alive=old)
    house.engine.text = None
    known = next(n.seq for n in old.numbered if isinstance(n.event, events.ResponseDelta) and n.event.data == "c")
    old.end()
    new = house.add_leg(session, last_event=known)
    assert new.words == ["d", "e", "f"]
    assert all(event.rtp_timestamp is None for event in new.events if isinstance(event, events.ResponseDelta))
    assert new.types == ["session.created", *["response.delta"] * 3, "session.resumed"]
    assert new.last_of(events.SessionResumed).missed == 0


@pytest.mark.parametrize("last_event", [10**6, 2**53 - 1])
async def test_a_client_that_claims_to_know_the_future_gets_no_replay(house: House, last_event: int) -> None:
    session, old = await house.live_call()
    old.end()
    new = house.add_leg(session, last_event=last_event)
    assert new.types == ["session.created", "session.resumed"]


async def test_without_a_number_the_events_since_the_last_sign_of_life_are_replayed(house: House) -> None:
    session, old = await house.live_call()
    for word in "abc":
        house.engine.text = word
        await house.tick(1, alive=old)
    for word in "def":
        house.engine.text = word
        await house.tick(1)
    house.engine.text = None
    old.end()
    new = house.add_leg(session)
    assert new.words == ["d", "e", "f"]


async def test_statistics_progress_and_interim_words_are_not_replayed(house: House) -> None:
    session, old = await house.live_call()
    await house.tick(40, alive=old)
    assert "session.stats" in old.types
    new = house.add_leg(session, last_event=0)
    assert new.types == ["session.created", "session.ready", "response.created", "session.resumed"]


async def test_what_was_too_much_to_keep_is_counted(house: House) -> None:
    session, old = await house.live_call()
    house.engine.text = "x"
    for _ in range(600):
        await house.tick(1, alive=old)
    house.engine.text = None
    new = house.add_leg(session, last_event=0)
    while "session.resumed" not in new.types:
        await house.tick(1, alive=new)
    assert len(new.words) == 512
    assert new.last_of(events.SessionResumed).missed == 600 + 2 - 512


async def test_a_leg_gets_no_more_than_it_has_room_for(house: House) -> None:
    """Its event channel is not open yet, and drops what it cannot keep."""
    session, old = await house.live_call()
    house.engine.text = "x"
    for _ in range(100):
        await house.tick(1, alive=old)
    new = FakeLeg(house.clock)
    new.event_room = 0
    house.add_leg(session, new, last_event=0)
    for _ in range(2000):
        await house.tick(1, alive=new)
    assert new.types == ["session.created"]
    new.event_room = 64
    await house.tick(1, alive=new)
    assert len(new.events) == 1025, "what waits is bounded"
    assert new.numbered[-1].seq > 2000, "and the newest are kept"
