"""How a leg ends, whoever ends it, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import numpy as np
import pytest

from rtc_server import events
from rtc_server.engine.client import Live
from rtc_server.transports.websocket.intake import Pace
from rtc_server.transports.websocket.leg import CLOSE_S, GOODBYE_S, TAIL_S, SocketLeg
from rtc_server.transports.websocket.wire import ConnectionLost
from tests.transports.websocket.fakes import FakeHandler, FakeWire, PlainDialect, Rig, frame, numbered, voice
from tests.transports.websocket.virtualloop import in_virtual_time, now

STALL_S = 10.0
STATS = events.SessionStats(0.0, 0.0, 0.0, 0.0, 0, None, 0, 0.0)


@in_virtual_time
async def test_close_sends_what_waits_and_then_says_why() -> None:
    rig = Rig()
    for number in range(5):
        rig.leg.write(now(), frame(number / 8))
    rig.leg.send_event(numbered(events.SessionEnded(reason="server_stopping")))
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
    rig.leg.send_event(numbered(events.SessionEnded(reason="client_closed")))
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
        lambda leg: leg.send_event(numbered(events.SessionReady())),
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
