"""The caller comes back over another leg, and the model goes on where it stood."""

from __future__ import annotations

import asyncio
import json

import pytest

from rtc_server import events
from rtc_server.session.session import State
from tests.session.conftest import House
from tests.session.fakes import FakeEngine, FakeLeg, speech


async def test_a_new_leg_takes_the_conversation_over_where_it_stands(house: House) -> None:
    session, old = await house.live_call()
    await house.tick(10, alive=old)
    lease, frames = session.lease, session.frames
    old.end()
    await house.tick(20)
    new = house.add_leg(session)
    assert session.state is State.LIVE
    await house.tick(5, alive=new)
    assert session.lease == lease and house.engine.leases == [lease]
    assert session.frames == frames + 5 == house.stepped_frames
    assert len(new.taken_at) == len(new.written) == 5
    assert new.types[:2] == ["session.created", "session.resumed"]
    assert "response.created" not in new.types and "response.done" not in old.types
    assert new.last_of(events.SessionResumed) == events.SessionResumed(context="kept", gap_ms=1600, missed=0)


async def test_a_call_that_still_lives_is_taken_over_without_a_gap(house: House) -> None:
    session, old = await house.live_call()
    await house.tick(5, alive=old)
    new = house.add_leg(session, connected=False)
    await house.tick(3, alive=old)
    assert len(old.written) == len(old.taken_at), "the old leg goes on until the new one is connected"
    assert new.events == [] and new.written == []
    written = len(old.written)
    new.connect()
    await house.tick(3, alive=new)
    await asyncio.sleep(0)
    assert (len(old.written), len(new.written)) == (written, 3)
    assert session.frames == house.stepped_frames
    assert new.last_of(events.SessionResumed).gap_ms == 0
    assert old.closed == ["replaced"] and old.events[-1] == events.SessionEnded(reason="replaced")


async def test_what_the_old_leg_still_says_concerns_nobody(house: House) -> None:
    session, old = await house.live_call()
    house.add_leg(session)
    old.say('{"type":"close"}')
    old.say('{"type":"response.cancel"}')
    old.say("nonsense")
    old.end()
    await house.tick(2)
    assert session.state is State.LIVE
    assert old.flushes == 0 and old.types[-1] == "session.ended"


async def test_a_new_leg_that_never_connects_changes_nothing(house: House) -> None:
    session, old = await house.live_call()
    new = house.add_leg(session, connected=False)
    await house.tick(3, alive=old)
    new.end("ice_failed")
    await house.tick(3, alive=old)
    assert session.state is State.LIVE
    assert len(old.written) == session.frames
    assert "session.resumed" not in old.types


async def test_of_two_new_legs_the_newest_wins(house: House) -> None:
    session, old = await house.live_call()
    first = house.add_leg(session, connected=False)
    second = house.add_leg(session, connected=False)
    await asyncio.sleep(0)
    assert first.closed == ["replaced"] and old.closed == []
    first.connect()
    assert session.leg is old
    second.connect()
    assert session.leg is second
    await session.wait_closed()
    session.close("test")
    await session.wait_closed()
    assert (len(old.closed), len(first.closed), len(second.closed)) == (1, 1, 1)


async def test_a_leg_that_was_given_up_and_connects_all_the_same_begins_nothing(house: House) -> None:
    session, first = await house.call(connected=False)
    given_up = house.add_leg(session, connected=False)
    newest = house.add_leg(session, connected=False)
    given_up.connect()
    assert session.state is State.CONNECTING
    newest.connect()
    assert session.state is State.PREFILL and newest.types[0] == "session.created"
    await asyncio.sleep(0)
    assert first.closed == given_up.closed == ["replaced"] and not first.events and not given_up.events


async def test_a_conversation_is_taken_over_again_and_again(house: House) -> None:
    session, leg = await house.live_call()
    for _ in range(20):
        house.clock.now += 3
        leg.alive()
        leg.end()
        await house.tick(3)
        leg = house.add_leg(session)
        await house.tick(3, alive=leg)
    assert session.frames == house.stepped_frames
    assert len(house.engine.prompts) == 1


async def test_a_silent_old_leg_is_taken_over_too(house: House) -> None:
    """The path died, and nobody said goodbye."""
    session, old = await house.live_call()
    house.clock.now += 14
    await house.tick()
    assert session.state is State.DEGRADED
    new = house.add_leg(session)
    assert session.state is State.LIVE
    await house.tick(2, alive=new)
    await asyncio.sleep(0)
    assert old.closed == ["replaced"]
    assert len(new.written) == 2


async def test_the_end_waits_for_a_leg_that_is_being_set_up(house: House) -> None:
    session, old = await house.live_call()
    old.end()
    house.clock.now += 9.9
    new = house.add_leg(session, connected=False)
    house.clock.now += 2
    await house.tick()
    assert session.state is State.DEGRADED
    new.connect()
    assert session.state is State.LIVE


async def test_the_end_does_not_wait_for_ever_for_legs_that_never_connect(house: House) -> None:
    session, old = await house.live_call()
    old.end()
    for _ in range(23):
        house.add_leg(session, connected=False)
        house.clock.now += 1
        await house.tick()
    assert session.state is State.DEGRADED
    house.clock.now += 1
    await house.tick()
    assert session.state is State.CLOSED


async def test_a_new_leg_that_fails_after_the_time_is_up_ends_the_wait(house: House) -> None:
    session, old = await house.live_call()
    old.end()
    new = house.add_leg(session, connected=False)
    house.clock.now += 12
    new.end("ice_failed")
    assert session.state is State.CLOSED


async def test_a_vanished_caller_who_is_setting_up_a_leg_is_not_let_go(house: House) -> None:
    session, _ = await house.live_call()
    house.clock.now += 29
    await house.tick()
    new = house.add_leg(session, connected=False)
    house.clock.now += 3
    await house.tick()
    assert session.state is State.DEGRADED
    new.connect()
    await house.tick()
    assert session.state is State.LIVE


async def test_a_prefill_goes_on_when_its_caller_comes_over_another_leg(house: House) -> None:
    """Posted before the old connection is closed: a page that is loaded again while the prompt is read."""
    house.engine.ready_slots = False
    session, old = await house.call()
    await house.tick(3)
    new = house.add_leg(session, connected=False)
    old.end()
    await house.tick(3)
    assert session.state is State.PREFILL
    house.engine.ready_slots = True
    await house.tick(3)
    assert (session.state, session.frames) == (State.PREFILL, 0), "nobody is there to talk with"
    new.connect()
    await house.tick(2, alive=new)
    assert session.state is State.LIVE
    assert new.types.count("session.created") == new.types.count("response.created") == 1
    assert "session.resumed" not in new.types, "nothing had begun"
    assert len(house.engine.prompts) == 1


async def test_a_call_that_never_connected_may_be_tried_again_with_its_token(house: House) -> None:
    session, first = await house.call(connected=False)
    second = house.add_leg(session, connected=False)
    first.end("ice_failed")
    await house.tick()
    second.connect()
    await house.tick(2, alive=second)
    assert session.state is State.LIVE
    assert [numbered.seq for numbered in second.numbered] == list(range(1, len(second.numbered) + 1))
    assert first.events == []


# ---- what survives ---------------------------------------------------------------------------------------------------


async def test_the_callers_speech_goes_on_over_a_takeover(house: House) -> None:
    session, old = await house.live_call()
    house.engine.agent = 8000
    await house.tick(10, alive=old)
    old.voice = speech()
    await house.tick(10, alive=old)
    assert old.types.count("barge_in") == old.types.count("input.speech_started") == 1
    new = house.add_leg(session, FakeLeg(house.clock, speech()))
    await house.tick(10, alive=new)
    assert "barge_in" not in new.types and "input.speech_started" not in new.types
    new.voice = speech(level=0.0)
    await house.tick(10, alive=new)
    stopped = new.of(events.InputSpeechStopped)[0]
    assert isinstance(stopped, events.InputSpeechStopped)
    assert stopped.audio_ms == (session.frames - 10) * 80


async def test_heard_audio_counts_over_all_legs_and_acknowledgements_for_their_own(house: House) -> None:
    session, old = await house.live_call()
    await house.tick(9, alive=old)
    old.say(json.dumps({"type": "playback.ack", "cursor": old.played_ms() - 200}))
    heard_before = old.played_ms() - 200
    new = house.add_leg(session)
    new.say('{"type":"response.cancel"}')
    await house.tick(10, alive=new)
    new.say('{"type":"playback.ack","cursor":700}')
    new.say('{"type":"response.cancel"}')
    played = [event.played_ms for event in new.events if isinstance(event, events.ResponseCancelled)]
    assert played == [heard_before, heard_before + 700]


async def test_a_cancel_that_comes_over_two_channels_counts_once(house: House) -> None:
    session, leg = await house.live_call()
    for cancel_id in ("a", "a", "b", "a", "b"):
        leg.say(json.dumps({"type": "response.cancel", "id": cancel_id}))
    assert leg.flushes == 2
    for _ in range(2):
        leg.say('{"type":"response.cancel"}')
    assert leg.flushes == 4
    assert session.state is State.LIVE


@pytest.mark.parametrize("cancel_id", [5, "x" * 65, [], {}])
async def test_a_cancel_with_an_id_that_is_none_gets_an_error(house: House, cancel_id: object) -> None:
    _, leg = await house.live_call()
    leg.say(json.dumps({"type": "response.cancel", "id": cancel_id}))
    assert leg.types[-1] == "error" and leg.flushes == 0


async def test_remembered_cancels_are_bounded(house: House) -> None:
    session, leg = await house.live_call()
    for number in range(1000):
        leg.say(json.dumps({"type": "response.cancel", "id": str(number)}))
    assert len(session._conversation._cancels) == 64


async def test_a_neighbour_hears_nothing_of_it() -> None:
    house = House(engine=FakeEngine(slots=3))
    session, leg = await house.live_call()
    neighbour, neighbour_leg = await house.live_call()
    leg.end()
    await house.tick(20, alive=neighbour_leg)
    new = house.add_leg(session)
    await house.tick(20, alive=neighbour_leg)
    new.end("internal_error")
    await house.tick(20, alive=neighbour_leg)
    assert neighbour.state is State.LIVE
    assert len(neighbour_leg.written) == neighbour.frames
    assert "session.degraded" not in neighbour_leg.types
