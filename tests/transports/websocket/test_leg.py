"""The leg by itself: what it sends, how it ends, and that nothing of it is left. With sessions: test_conversation."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from rtc_server import events
from rtc_server.engine.client import Live
from rtc_server.session.leg import Leg
from rtc_server.transports.websocket.intake import Pace
from tests.transports.websocket.fakes import Rig, frame, numbered, voice
from tests.transports.websocket.virtualloop import in_virtual_time, now

STALL_S = 10.0
STATS = events.SessionStats(0.0, 0.0, 0.0, 0.0, 0, None, 0, 0.0)


# ---- talking ---------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_it_is_a_leg_and_connected_from_the_start() -> None:
    rig = Rig()
    leg: Leg = rig.leg
    assert rig.handler.connected == 1
    assert leg.kind == "websocket"
    await leg.close("client_closed")


@in_virtual_time
async def test_frames_and_events_leave_at_once_and_in_order() -> None:
    rig = Rig()
    rig.leg.send_event(numbered(events.SessionReady()))
    rig.leg.write(now(), frame(0.1))
    rig.leg.send_event(numbered(events.ResponseDelta(0, "hello", 0, None)))
    rig.leg.tell('{"type":"note"}')
    began_s = now()
    await asyncio.sleep(0.01)
    kinds = [message if isinstance(message, bytes) else "text" for message in rig.wire.messages]
    assert kinds == ["text", frame(0.1).tobytes(), "text", "text"]
    assert rig.wire.types == ["session.ready", "response.delta", "note"]
    assert rig.wire.sent_s == [began_s] * 4
    assert rig.leg.played_ms() == 80
    await rig.leg.close("client_closed")


@in_virtual_time
async def test_messages_of_the_client_reach_the_handler() -> None:
    rig = Rig()
    rig.leg.message('{"type":"response.cancel"}')
    assert rig.handler.messages == ['{"type":"response.cancel"}']
    await rig.leg.close("client_closed")
    rig.leg.message('{"type":"response.cancel"}')
    assert len(rig.handler.messages) == 1


@in_virtual_time
async def test_a_flood_of_messages_reaches_the_handler_at_fifty_a_second() -> None:
    rig = Rig()
    for _ in range(2 * 200):
        rig.leg.message("{}")
        await asyncio.sleep(0.005)
    assert len(rig.handler.messages) == pytest.approx(100 + 2 * 50, abs=2)
    await rig.leg.close("client_closed")


@in_virtual_time
async def test_a_ping_a_second_measures_the_round_trip() -> None:
    rig = Rig()
    rig.wire.way_s = 0.123
    await asyncio.sleep(10.5)
    assert len(rig.wire.pings) == 11
    assert rig.leg.stats().round_trip_ms == pytest.approx(123)
    assert now() - rig.leg.last_sign_of_life_s == pytest.approx(0.377)
    await rig.leg.close("client_closed")


@in_virtual_time
async def test_answers_behind_audio_that_had_to_wait_tell_nothing_of_the_way() -> None:
    rig = Rig(Pace.INPUT)
    await asyncio.sleep(0.5)
    assert rig.leg.stats().round_trip_ms == pytest.approx(20)
    feeding = asyncio.create_task(rig.leg.feed(voice(13 + 1500 + 1)))
    rig.wire.way_s = 5.0  # a pong is read when the audio before it has found room
    await asyncio.sleep(3)
    rig.leg.take(now())
    await feeding
    rig.wire.way_s = 0.02
    await asyncio.sleep(2.4)
    assert rig.leg.stats().round_trip_ms == pytest.approx(20)
    await rig.leg.close("client_closed")


@in_virtual_time
async def test_audio_that_is_yet_to_be_heard_is_a_sign_of_life() -> None:
    rig = Rig(Pace.INPUT, answers_pings=False)
    await rig.leg.feed(voice(100))
    await asyncio.sleep(60)
    assert rig.leg.last_sign_of_life_s == now()
    rig.leg.lost()
    await asyncio.sleep(60)
    assert now() - rig.leg.last_sign_of_life_s == 120


@in_virtual_time
async def test_stats_are_those_of_both_ways() -> None:
    rig = Rig()
    await asyncio.sleep(0)
    rig.leg.take(now())
    await rig.leg.feed(voice(25))
    rig.wire.stop_reading()
    await rig.talk(0.8)
    stats = rig.leg.stats()
    assert stats.concealed_ms == 80
    assert 900 <= stats.input_dropped_ms <= 1000
    assert stats.jitter_delay_ms >= 1000
    assert stats.playout_delay_ms == 80 * (10 - 1 - 1)
    rig.wire.read_on()
    await asyncio.sleep(0)
    assert rig.leg.stats().lateness_ms == pytest.approx(720)
    rig.leg.lost()
    await rig.leg.wait_closed()


@pytest.mark.parametrize("pace", Pace)
@in_virtual_time
async def test_who_wants_no_audio_gets_its_newest_second_later(pace: Pace) -> None:
    rig = Rig(pace)
    rig.leg.hold()
    for number in range(100):
        rig.leg.write(now(), frame(number / 128))
        await asyncio.sleep(0.08)
    rig.leg.send_event(numbered(events.SessionReady()))
    await asyncio.sleep(20)
    assert rig.wire.frames == [] and rig.wire.types == ["session.ready"]
    rig.leg.release()
    await asyncio.sleep(0)
    assert [np.frombuffer(sent, np.float32)[-1] * 128 for sent in rig.wire.frames] == list(range(88, 100))
    await rig.leg.close("client_closed")


@in_virtual_time
async def test_flush_drops_what_is_not_handed_over() -> None:
    rig = Rig()
    await rig.talk(0.4)
    rig.wire.stop_reading()
    await rig.talk(0.48)  # one of these is in the hands of the socket
    flushed = rig.leg.flush(now())
    assert (flushed.played_ms, flushed.dropped_ms) == (480, 5 * 80 - 20)
    rig.wire.read_on()
    await rig.talk(0.4)
    assert len(rig.wire.frames) == 5 + 1 + 1 + 5
    assert rig.wire.pcm[7 * 1920] == 0.0  # what follows fades in
    await rig.leg.close("client_closed")


# ---- the engine waits for who reads slowly, at the pace of the input -------------------------------------------------


@in_virtual_time
async def test_a_frame_of_input_asks_for_one_step_and_none_for_none() -> None:
    rig = Rig(Pace.INPUT)
    assert rig.leg.live is Live.NO
    await rig.leg.feed(voice(1))
    assert rig.leg.live is Live.ONCE
    rig.leg.take(now())
    assert rig.leg.live is Live.NO
    await rig.leg.close("client_closed")


@in_virtual_time
async def test_input_waits_while_a_second_of_the_answer_is_unread() -> None:
    rig = Rig(Pace.INPUT)
    await rig.leg.feed(voice(5))
    await asyncio.sleep(0)
    rig.wire.stop_reading()
    while rig.leg.live is Live.ONCE:
        rig.leg.write(now(), frame(0.1))
        await asyncio.sleep(0)
    assert rig.leg.stats().playout_delay_ms <= 1000
    rig.leg.hold()  # who wants no audio does not stop the engine by that
    assert rig.leg.live is Live.ONCE
    rig.leg.release()
    rig.wire.read_on()
    await asyncio.sleep(0)
    assert rig.leg.live is Live.ONCE
    assert len(rig.wire.frames) == 13
    await rig.leg.close("client_closed")


@in_virtual_time
async def test_real_time_is_always_live() -> None:
    rig = Rig()
    assert rig.leg.live is Live.YES
    await rig.leg.close("client_closed")


# ---- who does not read -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers_pings", [True, False])
@pytest.mark.parametrize("pace", Pace)
@in_virtual_time
async def test_who_takes_nothing_for_ten_seconds_is_let_go(pace: Pace, answers_pings: bool) -> None:
    rig = Rig(pace, answers_pings)
    await rig.talk(4.8)
    rig.wire.stop_reading()
    stopped_s = now()
    await rig.talk(9.6)
    assert rig.handler.closed == [] and len(rig.wire.frames) == 60
    await rig.talk(1.6)
    assert rig.handler.closed == ["not_reading"]
    assert rig.wire.closed == [(1008, "the client does not read what it is sent")]
    assert STALL_S <= rig.wire.closed_s[0] - stopped_s < STALL_S + 0.2
    await rig.leg.wait_closed()


@pytest.mark.parametrize(
    "event", [None, events.ResponseDelta(0, "word", 0, None), STATS], ids=["audio", "words too", "figures too"]
)
@in_virtual_time
async def test_a_socket_that_takes_all_hides_a_reader_that_stopped_from_nobody(
    event: events.ServerEvent | None,
) -> None:
    rig = Rig()
    await rig.talk(4.8, event)
    rig.wire.answers_pings = False
    stopped_s = now()
    await rig.talk(4.8, event)
    assert len(rig.wire.frames) == 50 + 25  # two seconds behind the last answer, which was to the ping at 4 s
    await rig.talk(9.6, event)
    assert rig.handler.closed == ["not_reading"]
    assert 11 < rig.wire.closed_s[0] - stopped_s < 11.4
    await rig.leg.wait_closed()


@in_virtual_time
async def test_at_the_pace_of_the_input_answers_are_not_waited_for() -> None:
    rig = Rig(Pace.INPUT)
    await rig.talk(2.4)
    rig.wire.answers_pings = False  # they wait behind the caller's audio, which waits for the engine
    await rig.talk(24)
    assert len(rig.wire.frames) == 330
    assert rig.handler.closed == []
    await rig.leg.close("client_closed")


@in_virtual_time
async def test_a_slow_reader_stays_and_hears_the_newest() -> None:
    rig = Rig()
    for number in range(500):
        if number % 25 == 0:
            rig.wire.stop_reading()
        elif number % 25 == 20:
            rig.wire.read_on()
        rig.leg.write(now(), frame(number / 512))
        await asyncio.sleep(0.08)
    rig.wire.read_on()
    await asyncio.sleep(0.1)
    assert rig.handler.closed == []
    last = [round(float(np.frombuffer(sent, np.float32)[-1]) * 512) for sent in rig.wire.frames]
    assert last == sorted(set(last)) and last[-1] == 499
    assert 250 < len(last) < 500
    await rig.leg.close("client_closed")


@in_virtual_time
async def test_a_long_way_costs_no_audio() -> None:
    rig = Rig()
    rig.wire.way_s = 1.8
    await rig.talk(40)
    await rig.leg.close("client_closed")
    assert len(rig.wire.frames) == 500
