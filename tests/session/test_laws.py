"""The laws of a response without turns: it starts once, is never superseded, and ends on every way out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np
import pytest

from rtc_server import events
from rtc_server.engine.client import Live, SlotStatus
from rtc_server.media.pcm import to_int16
from rtc_server.session.session import Session, State
from tests.session.conftest import House
from tests.session.fakes import FakeLeg, speech

WayOut = Callable[[House, Session, FakeLeg], Awaitable[None]]


async def _client_says_close(house: House, session: Session, leg: FakeLeg) -> None:
    leg.say('{"type":"close"}')


async def _input_ends(house: House, session: Session, leg: FakeLeg) -> None:
    leg.input_ended = True
    await house.tick(1)


async def _slot_breaks(house: House, session: Session, leg: FakeLeg) -> None:
    house.engine.status = SlotStatus.FAILED
    await house.tick(1)


async def _engine_forgets_the_lease(house: House, session: Session, leg: FakeLeg) -> None:
    house.engine.leases.clear()
    await house.tick(1)


async def _leg_breaks(house: House, session: Session, leg: FakeLeg) -> None:
    leg.fail_on_write = True
    await house.tick(1)


async def _caller_vanishes(house: House, session: Session, leg: FakeLeg) -> None:
    house.clock.now += 31
    await house.tick(1)


async def _server_stops(house: House, session: Session, leg: FakeLeg) -> None:
    await house.registry.drain(0.0, "server_stopping")


@pytest.mark.parametrize(
    ("way_out", "reason"),
    [
        (_client_says_close, "client_closed"),
        (_input_ends, "client_closed"),
        (_slot_breaks, "engine_failed"),
        (_engine_forgets_the_lease, "engine_lost"),
        (_leg_breaks, "internal_error"),
        (_caller_vanishes, "peer_silent"),
        (_server_stops, "server_stopping"),
    ],
)
async def test_the_response_ends_before_the_session_on_every_way_out(
    house: House, way_out: WayOut, reason: str
) -> None:
    session, leg = await house.live_call()
    await way_out(house, session, leg)
    await session.wait_closed()
    assert session.state is State.CLOSED
    assert leg.types.count("response.created") == leg.types.count("response.done") == 1
    assert leg.types[-2:] == ["response.done", "session.ended"]
    assert leg.last_of(events.SessionEnded).reason == reason
    assert leg.closed == [reason]
    assert house.engine.leases == []
    assert len(house.registry) == 0


async def test_a_connection_that_closes_for_good_leaves_no_response_and_no_slot_behind(house: House) -> None:
    session, leg = await house.live_call()
    leg.end()
    house.clock.now += 11
    await house.tick(1)
    await session.wait_closed()
    assert session.state is State.CLOSED
    assert house.engine.leases == []
    assert len(house.registry) == 0


async def test_the_last_frame_of_an_input_that_ends_is_answered(house: House) -> None:
    session, leg = await house.live_call()
    leg.live = Live.NO  # nothing came yet
    await house.tick(3)
    before = len(leg.written)
    leg.live = Live.ONCE
    leg.input_ended = True  # the padded tail is the last that this leg has
    await house.tick(1)
    await session.wait_closed()
    assert len(leg.written) - before == 1
    assert leg.last_of(events.SessionEnded).reason == "client_closed"


async def test_whatever_a_client_asks_for_there_is_one_response(house: House) -> None:
    session, leg = await house.live_call()
    stepped = house.stepped_frames
    for message in (
        '{"type":"input.commit"}',
        '{"type":"response.create"}',
        '{"type":"response.cancel"}',
        '{"type":"response.create"}',
        '{"type":"playback.ack","cursor":80}',
        '{"type":"input.commit"}',
    ):
        leg.say(message)
        await house.tick(2, alive=leg)
    assert leg.types.count("response.created") == 1
    assert "response.done" not in leg.types
    assert {event.response_index for event in leg.events if hasattr(event, "response_index")} == {0}
    assert house.stepped_frames - stepped == 12
    assert session.state is State.LIVE


async def test_the_engine_hears_every_frame_of_an_interruption(house: House) -> None:
    """Nothing is withheld, repeated or silenced around a cancel: the next frames steer the model."""
    _, leg = await house.live_call()
    house.engine.agent = 8000
    first = len(house.engine.exchanges)
    said = [speech(seed) for seed in range(20)]
    for number, frame in enumerate(said):
        leg.voice = frame
        if number == 10:
            leg.say('{"type":"response.cancel"}')
        await house.tick(1, alive=leg)
    heard = [(live, pcm[0]) for _, (live,), pcm in house.engine.exchanges[first:]]
    assert [live for live, _ in heard] == [Live.YES] * 20
    np.testing.assert_array_equal(np.stack([pcm for _, pcm in heard]), np.stack([to_int16(frame) for frame in said]))


async def test_each_cancel_moves_the_epoch_by_one_and_the_cursor_never_back(house: House) -> None:
    _, leg = await house.live_call()
    await house.tick(10, alive=leg)
    for cursor_ms in (400, 160, 10_000):  # the second is older than the first, the third was never sent
        leg.say(f'{{"type":"playback.ack","cursor":{cursor_ms}}}')
        leg.say('{"type":"response.cancel"}')
        await house.tick(1, alive=leg)
    cancelled = [event for event in leg.events if isinstance(event, events.ResponseCancelled)]
    assert [event.epoch for event in cancelled] == [1, 2, 3]
    assert [event.played_ms for event in cancelled] == [400, 480, 560]


async def test_a_caller_whose_audio_is_the_clock_is_told_ready_before_sending_any(house: House) -> None:
    house.engine.ready_slots = False
    leg = FakeLeg(house.clock)
    leg.live = Live.NO
    session, _ = await house.call(leg)
    await house.tick(3, alive=leg)
    assert session.state is State.PREFILL
    house.engine.ready_slots = True
    await house.tick(1, alive=leg)
    assert session.state is State.LIVE
    assert leg.types[-2:] == ["session.ready", "response.created"]
    assert house.stepped_frames == 0


async def test_a_caller_whose_audio_is_the_clock_is_stepped_once_a_frame(house: House) -> None:
    leg = FakeLeg(house.clock)
    leg.live = Live.NO
    session, _ = await house.call(leg)
    await house.tick(2, alive=leg)
    for has_frame in (True, False, False, True, True, False):
        leg.live = Live.ONCE if has_frame else Live.NO
        await house.tick(1, alive=leg)
    assert [live for _, (live,), _ in house.engine.exchanges[-6:]] == [2, 0, 0, 2, 2, 0]
    assert len(leg.taken_at) == len(leg.written) == session.frames == 3


async def test_audio_that_was_thrown_away_is_told_at_most_once_a_second(house: House) -> None:
    _, leg = await house.live_call()
    for _ in range(50):  # 4 s
        leg.input_dropped_ms += 20
        await house.tick(1, alive=leg)
    told = [event.dropped_ms for event in leg.events if isinstance(event, events.InputDropped)]
    assert 3 <= len(told) <= 4
    assert leg.input_dropped_ms - 1000 < sum(told) <= leg.input_dropped_ms
