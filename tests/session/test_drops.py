"""What was dropped of a caller's audio is told, also when there will be no other statistics."""

from __future__ import annotations

import pytest

from rtc_server import events, metrics
from tests.session.conftest import House
from tests.session.fakes import FakeLeg


def told_ms(leg: FakeLeg) -> list[int]:
    return [event.dropped_ms for event in leg.events if isinstance(event, events.InputDropped)]


async def test_drops_are_told_once_before_the_end(house: House) -> None:
    session, leg = await house.live_call()
    leg.input_dropped_ms = 300
    await house.tick(15, alive=leg)
    leg.input_dropped_ms = 500
    session.close("client_closed")
    assert told_ms(leg) == [300, 200]
    assert leg.types[-1] == "session.ended"


async def test_drops_are_told_to_who_is_replaced(house: House) -> None:
    session, old = await house.live_call()
    old.input_dropped_ms = 300
    new = house.add_leg(session)
    new.input_dropped_ms = 40
    assert told_ms(old) == [300] and old.types[-1] == "session.ended"
    await house.tick(15, alive=new)
    assert told_ms(new) == [300, 40]  # the first of them may not have been read


async def test_drops_of_a_connection_that_breaks_are_counted_and_told_to_who_comes_back(house: House) -> None:
    session, leg = await house.live_call()
    leg.input_dropped_ms = 300
    before_s = metrics.INPUT_DROPPED_SECONDS._value.get()
    leg.end()
    assert told_ms(house.add_leg(session)) == [300]
    session.close("client_closed")
    assert metrics.INPUT_DROPPED_SECONDS._value.get() - before_s == pytest.approx(0.3)


async def test_a_call_that_was_never_live_has_no_drops_to_tell(house: House) -> None:
    session, leg = await house.call()
    leg.input_dropped_ms = 300
    session.close("server_stopping")
    assert told_ms(leg) == []
