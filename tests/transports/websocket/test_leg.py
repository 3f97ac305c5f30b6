"""The leg by itself: what it sends, how it ends, and that nothing of it is left. With sessions: test_conversation."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import numpy as np
import pytest

from rtc_server import events
from rtc_server.engine.client import Live
from rtc_server.events import Numbered
from rtc_server.session.leg import Leg
from rtc_server.transports.websocket.intake import Pace
from rtc_server.transports.websocket.leg import CLOSE_S, GOODBYE_S, TAIL_S, SocketLeg
from rtc_server.transports.websocket.wire import ConnectionLost
from tests.transports.websocket.fakes import FakeHandler, FakeWire, PlainDialect, frame, voice
from tests.transports.websocket.virtualloop import in_virtual_time, now

STALL_S = 10.0
STATS = events.SessionStats(0.0, 0.0, 0.0, 0.0, 0, None, 0, 0.0)


class Rig:
    def __init__(self, pace: Pace = Pace.REALTIME, answers_pings: bool = True) -> None:
        self.wire = FakeWire(answers_pings)
        self.dialect = PlainDialect()
        self.handler = FakeHandler()
        self.leg = self.wire.leg = SocketLeg(self.wire, self.dialect, pace, self.handler, now)
        self.leg.start()

    async def talk(self, seconds: float, event: events.ServerEvent | None = None) -> None:
        """The agent talks: a frame each 80 ms, and `event` with each."""
        for _ in range(round(seconds / 0.08)):
            if event is not None:
                self.leg.send_event(_event(event))
            self.leg.write(now(), frame(0.1))
            await asyncio.sleep(0.08)


def _event(event: events.ServerEvent, seq: int = 1) -> Numbered:
    return Numbered(seq, event)


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
    rig.leg.send_event(_event(events.SessionReady()))
    rig.leg.write(now(), frame(0.1))
    rig.leg.send_event(_event(events.ResponseDelta(0, "hello", 0, None)))
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
    rig.leg.send_event(_event(events.SessionReady()))
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


# ---- the end ---------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_close_sends_what_waits_and_then_says_why() -> None:
    rig = Rig()
    for number in range(5):
        rig.leg.write(now(), frame(number / 8))
    rig.leg.send_event(_event(events.SessionEnded(reason="server_stopping")))
    await rig.leg.close("server_stopping")
    await rig.leg.close("client_closed")
    assert len(rig.wire.frames) == 5 and rig.wire.types == ["session.ended"]
    assert rig.wire.closed == [(1012, "the server is shutting down")]
    assert rig.handler.closed == []


@in_virtual_time
async def test_close_waits_two_seconds_for_who_does_not_read() -> None:
    rig = Rig()
    rig.wire.stop_reading()
    await rig.talk(0.4)
    began_s = now()
    await rig.leg.close("server_stopping")
    assert rig.wire.closed_s[0] - began_s == pytest.approx(GOODBYE_S)
    assert rig.wire.closed == [(1012, "the server is shutting down")]


@pytest.mark.parametrize("takes_s", [0.1, 0.5, 1.0])
@in_virtual_time
async def test_who_reads_slowly_hears_all_of_the_answer_to_what_it_finished(takes_s: float) -> None:
    rig = await _finished(takes_s)
    began_s = now()
    await rig.leg.close("client_closed")
    assert np.array_equal(rig.wire.pcm, voice(12))
    assert rig.wire.closed == [(1000, "the conversation has ended")]
    assert 12 * takes_s <= now() - began_s <= TAIL_S


@pytest.mark.parametrize(("takes_s", "patience_s"), [(4.0, TAIL_S), (math.inf, STALL_S)])
@in_virtual_time
async def test_who_reads_next_to_nothing_is_not_told_that_all_is_well(takes_s: float, patience_s: float) -> None:
    rig = await _finished(takes_s)
    began_s = now()
    await rig.leg.close("client_closed")
    assert rig.wire.closed == [(1008, "the client does not read what it is sent")]
    assert now() - began_s == pytest.approx(patience_s)


async def _finished(takes_s: float) -> Rig:
    """A caller whose audio has ended, and to whom the answer of about a second is still owed."""
    rig = Rig(Pace.INPUT, answers_pings=False)
    await asyncio.sleep(0.5)
    rig.wire.takes_s = takes_s
    await rig.leg.feed(voice(12))
    rig.leg.finish()
    while rig.leg.live is Live.ONCE:
        rig.leg.write(now(), rig.leg.take(now()))
    assert rig.leg.input_ended
    return rig


@in_virtual_time
async def test_an_end_that_the_client_did_not_ask_for_is_told_as_such() -> None:
    rig = Rig(Pace.INPUT)
    await rig.leg.feed(voice(1.5))
    rig.leg.finish()
    rig.leg.take(now())  # half a frame is yet to be answered
    rig.leg.send_event(_event(events.SessionEnded(reason="client_closed")))
    await rig.leg.close("client_closed")
    assert rig.wire.words == [{"type": "session.ended", "reason": "ended_elsewhere"}]
    assert rig.wire.closed == [(1000, "the conversation was ended from elsewhere")]


@in_virtual_time
async def test_close_does_not_wait_for_answers_to_pings() -> None:
    rig = Rig()
    await rig.talk(1.6)
    rig.wire.answers_pings = False
    await rig.talk(2.0)
    assert len(rig.wire.frames) < 40
    began_s = now()
    await rig.leg.close("client_closed")
    assert now() == began_s
    assert len(rig.wire.frames) == 45


@in_virtual_time
async def test_a_socket_that_never_closes_is_left() -> None:
    rig = Rig()
    rig.wire.close_hangs = True
    began_s = now()
    await rig.leg.close("client_closed")
    assert now() - began_s == pytest.approx(CLOSE_S)


@in_virtual_time
async def test_who_closes_may_be_cancelled_and_the_leg_closes_all_the_same() -> None:
    rig = Rig()
    rig.wire.stop_reading()
    await rig.talk(0.4)
    closing = asyncio.create_task(rig.leg.close("server_stopping"))
    await asyncio.sleep(0.1)
    closing.cancel()
    await rig.leg.wait_closed()
    assert closing.cancelled()
    assert rig.wire.closed == [(1012, "the server is shutting down")]


@in_virtual_time
async def test_a_lost_socket_is_told_once_and_at_once() -> None:
    rig = Rig()
    rig.wire.stop_reading()
    await rig.talk(0.4)
    rig.leg.lost()
    assert rig.handler.closed == ["peer_closed"]
    rig.leg.lost()
    await rig.leg.close("client_closed")
    await rig.leg.wait_closed()
    assert rig.handler.closed == ["peer_closed"]
    assert rig.wire.frames == [] and rig.wire.closed == []


@pytest.mark.parametrize(
    ("error", "reason", "code"),
    [
        (ConnectionLost("gone"), "peer_closed", 1000),
        (RuntimeError("a defect"), "internal_error", 1011),
        (TimeoutError("the kernel gave up"), "not_reading", 1008),
    ],
)
@in_virtual_time
async def test_a_send_that_raises_ends_the_leg(error: Exception, reason: str, code: int) -> None:
    rig = Rig()
    await rig.talk(0.4)
    rig.wire.fails_with = error
    await rig.talk(0.4)
    assert rig.handler.closed == [reason]
    assert [closed for closed, _ in rig.wire.closed] == [code]
    await rig.leg.wait_closed()


@in_virtual_time
async def test_an_encoder_that_raises_ends_the_leg() -> None:
    rig = Rig()
    rig.dialect.is_broken = True
    await rig.talk(0.4)
    assert rig.handler.closed == ["internal_error"]
    assert rig.wire.closed == [(1011, "the server made a mistake")]
    await rig.leg.wait_closed()


@in_virtual_time
async def test_a_socket_that_is_lost_while_it_is_closed_is_closed() -> None:
    rig = Rig()
    rig.wire.stop_reading()
    await rig.talk(0.4)
    closing = asyncio.create_task(rig.leg.close("client_closed"))
    await asyncio.sleep(0.5)
    began_s = now()
    rig.leg.lost()
    await closing
    assert now() == began_s
    assert rig.handler.closed == []


@in_virtual_time
async def test_the_endpoint_may_say_lost_because_of_our_own_close() -> None:
    rig = Rig()
    rig.wire.close_hangs = True
    closing = asyncio.create_task(rig.leg.close("client_closed"))
    await asyncio.sleep(0.5)
    rig.leg.lost()
    await asyncio.sleep(0.5)
    assert not closing.done()  # the socket is still being closed
    await closing
    assert rig.handler.closed == []


@in_virtual_time
async def test_an_answer_to_a_ping_may_come_while_the_socket_is_being_closed() -> None:
    rig = Rig()
    rig.wire.close_hangs, rig.wire.way_s = True, 0.5
    await rig.talk(0.08)
    await rig.leg.close("client_closed")
    assert rig.leg.stats().round_trip_ms == pytest.approx(500)


@in_virtual_time
async def test_a_socket_that_breaks_at_once_leaves_nothing() -> None:
    rig = Rig()
    rig.leg.lost("client_gone")
    assert rig.handler.closed == ["client_gone"]
    await rig.leg.wait_closed()


@in_virtual_time
async def test_a_leg_that_never_started_closes_its_socket() -> None:
    wire, handler = FakeWire(), FakeHandler()
    leg = SocketLeg(wire, PlainDialect(), Pace.INPUT, handler, now)
    await leg.close("session_ended")
    leg.start()
    assert wire.closed == [(1000, "the conversation has ended")]
    assert handler.connected == 0 and handler.closed == []


def _feeds(leg: SocketLeg) -> None:
    feeding = leg.feed(voice(100))
    with pytest.raises(StopIteration):
        feeding.send(None)  # it has nothing to wait for


@pytest.mark.parametrize(
    "call",
    [
        _feeds,
        SocketLeg.finish,
        SocketLeg.alive,
        SocketLeg.hold,
        SocketLeg.release,
        SocketLeg.start,
        SocketLeg.lost,
        lambda leg: leg.message("{}"),
        lambda leg: leg.pong(b"\0" * 8),
        lambda leg: leg.tell("late"),
        lambda leg: leg.write(now(), frame(0.1)),
        lambda leg: leg.flush(now()),
        lambda leg: leg.send_event(_event(events.SessionReady())),
    ],
)
@pytest.mark.parametrize("pace", Pace)
@in_virtual_time
async def test_after_the_end_nothing_happens_any_more(pace: Pace, call: Callable[[SocketLeg], object]) -> None:
    rig = Rig(pace)
    await rig.leg.close("client_closed")
    call(rig.leg)
    await asyncio.sleep(20)
    assert rig.wire.messages == [] and len(rig.wire.closed) == 1
    assert rig.handler.closed == [] and rig.handler.messages == []
