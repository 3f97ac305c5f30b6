"""Legs over sockets with real sessions and the real conductor, an echo for an engine, in virtual time."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_SAMPLES, FloatSamples
from rtc_server.session.session import State
from rtc_server.transports.websocket.intake import Pace
from tests.transports.websocket.fakes import Caller, FakeWire, PlainDialect, Server, voice
from tests.transports.websocket.virtualloop import in_virtual_time, now


async def _until_closed(caller: Caller) -> None:
    async with asyncio.timeout(120):
        while not caller.wire.closed:
            await asyncio.sleep(0.08)
    await caller.session.wait_closed()


def _end_of(part: FloatSamples, whole: FloatSamples) -> int | None:
    """Where in `whole` this part of it ends."""
    at_byte = whole.tobytes().find(part.tobytes())
    return at_byte // 4 + part.size if at_byte >= 0 else None


# ---- the caller's audio is the clock ---------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_samples", [10**6, FRAME_SAMPLES, 777, 1])
@in_virtual_time
async def test_a_file_is_stepped_frame_by_frame_as_a_whole_and_comes_back(chunk_samples: int) -> None:
    said = voice(30.25 if chunk_samples > 1 else 2.25)
    async with Server() as server:
        caller = await server.call(Pace.INPUT)
        for start in range(0, said.size, chunk_samples):
            await caller.leg.feed(said[start : start + chunk_samples])
        caller.leg.finish()
        await _until_closed(caller)
        padding = -said.size % FRAME_SAMPLES
        expected = np.concatenate((said, np.zeros(padding, np.float32)))
        assert np.array_equal(server.engine.heard_from(caller), expected)
        assert np.array_equal(caller.wire.pcm, expected)
        assert caller.wire.words[-1] == {"type": "session.ended", "reason": "client_closed"}
        assert caller.wire.closed == [(1000, "the conversation has ended")]


@in_virtual_time
async def test_a_client_that_answers_no_ping_has_its_whole_recording_heard() -> None:
    said = voice(1000)
    async with Server() as server:
        caller = await server.call(Pace.INPUT, wire=FakeWire(answers_pings=False))
        await caller.leg.feed(said)
        caller.leg.finish()
        await _until_closed(caller)
        assert np.array_equal(caller.wire.pcm, said)


@in_virtual_time
async def test_who_sends_nothing_is_told_that_the_agent_is_ready_and_costs_no_step() -> None:
    async with Server() as server:
        caller = await server.call(Pace.INPUT)
        await asyncio.sleep(5)
        assert caller.session.state is State.LIVE
        assert caller.wire.types.count("session.ready") == 1
        assert server.engine.heard_from(caller).size == 0
        await caller.leg.feed(voice(1))
        await asyncio.sleep(0.2)
        assert np.array_equal(caller.wire.pcm, voice(1))


@in_virtual_time
async def test_ready_comes_before_audio_for_who_did_not_wait_for_it() -> None:
    async with Server() as server:
        server.engine.ready_slots = False
        caller = await server.call(Pace.INPUT)
        await caller.leg.feed(voice(3))
        await asyncio.sleep(1)
        server.engine.ready_slots = True
        await asyncio.sleep(0.5)
        kinds = ["audio" if isinstance(message, bytes) else "word" for message in caller.wire.messages]
        ready = caller.wire.types.index("session.ready")
        assert "audio" not in kinds[: ready + 1] and kinds.count("audio") == 3


@in_virtual_time
async def test_close_during_prefill_ends_at_once_and_audio_that_came_is_still_answered() -> None:
    async with Server() as server:
        server.engine.ready_slots = False
        empty, filled = await server.call(Pace.INPUT), await server.call(Pace.INPUT)
        empty.leg.finish()
        await filled.leg.feed(voice(0.5))
        filled.leg.finish()
        await asyncio.sleep(1)
        assert empty.session.state is State.CLOSED and filled.session.state is State.PREFILL
        server.engine.ready_slots = True
        await _until_closed(filled)
        assert filled.wire.pcm.size == FRAME_SAMPLES


@in_virtual_time
async def test_a_slow_reader_slows_the_engine_and_loses_nothing() -> None:
    said = voice(100)
    async with Server() as server:
        caller = await server.call(Pace.INPUT)
        feeding = asyncio.create_task(caller.leg.feed(said))
        for _ in range(10):
            caller.wire.stop_reading()
            await asyncio.sleep(5)
            assert caller.leg.stats().playout_delay_ms <= 1000
            caller.wire.read_on()
            await asyncio.sleep(0.5)
        await feeding
        caller.leg.finish()
        await _until_closed(caller)
        assert np.array_equal(caller.wire.pcm, said)


@in_virtual_time
async def test_a_slow_reader_hears_the_end_and_keeps_no_slot_for_it() -> None:
    said = voice(40)
    async with Server() as server:
        caller = await server.call(Pace.INPUT)
        caller.wire.takes_s = 0.4
        await caller.leg.feed(said)
        caller.leg.finish()
        while server.engine.leases:
            await asyncio.sleep(0.08)
        assert len(caller.wire.frames) < 40 and not caller.wire.closed
        await _until_closed(caller)
        assert np.array_equal(caller.wire.pcm, said)
        assert caller.wire.words[-1] == {"type": "session.ended", "reason": "client_closed"}
        assert caller.wire.closed == [(1000, "the conversation has ended")]


@in_virtual_time
async def test_a_pause_of_the_caller_passes_no_engine_time() -> None:
    async with Server() as server:
        caller = await server.call(Pace.INPUT)
        for _ in range(3):
            await caller.leg.feed(voice(10))
            await asyncio.sleep(30)
        assert caller.session.frames == 30
        assert np.array_equal(caller.wire.pcm, np.tile(voice(10), 3))


@in_virtual_time
async def test_a_long_pause_costs_no_audio() -> None:
    async with Server() as server:
        caller = await server.call(Pace.INPUT, wire=FakeWire(answers_pings=False))
        for _ in range(3):
            caller.leg.alive()
            await caller.leg.feed(voice(10.5))
            await asyncio.sleep(20)
        assert np.array_equal(caller.wire.pcm, np.tile(voice(10.5), 3)[: 31 * FRAME_SAMPLES])


# ---- time is the clock -----------------------------------------------------------------------------------------------


@in_virtual_time
async def test_in_real_time_each_tick_is_one_frame_out_as_one_message() -> None:
    async with Server() as server:
        caller = await server.call(Pace.REALTIME)
        await asyncio.sleep(8)
        assert 98 <= len(caller.wire.frames) <= 101
        assert all(len(frame) == FRAME_SAMPLES * 4 for frame in caller.wire.frames)


@in_virtual_time
async def test_a_burst_in_real_time_keeps_its_newest_second_and_is_told() -> None:
    said = voice(125)
    async with Server() as server:
        caller = await server.call(Pace.REALTIME)
        await asyncio.sleep(1)
        await caller.leg.feed(said)
        await asyncio.sleep(3.5)
        told = [word["dropped_ms"] for word in caller.wire.words if word["type"] == "input.dropped"]
        assert len(told) == 1 and 8900 <= told[0] <= 9000
        assert _end_of(said[-480:], caller.wire.pcm) is not None
        assert _end_of(said[-48_000:-47_520], caller.wire.pcm) is None


@in_virtual_time
async def test_what_was_said_before_the_agent_was_there_delays_nothing_and_is_not_told() -> None:
    said = voice(250)
    async with Server() as server:
        server.engine.ready_slots = False
        caller = await server.call(Pace.REALTIME)
        ready_s = now() + 10
        for number in range(250):  # a recorder: it runs from the start
            if now() >= ready_s:
                server.engine.ready_slots = True
            await caller.leg.feed(said[number * FRAME_SAMPLES : (number + 1) * FRAME_SAMPLES])
            await asyncio.sleep(0.08)
        heard_until = _end_of(server.engine.heard_from(caller)[-480:], said)
        assert heard_until is not None and (said.size - heard_until) / 24 < 300
        assert "input.dropped" not in caller.wire.types


@in_virtual_time
async def test_who_connects_and_allows_the_microphone_two_minutes_later_is_heard() -> None:
    """As a page does that opens its socket before it asks the person."""
    said = voice(25)
    async with Server(slots=1) as server:
        caller = await server.call(Pace.REALTIME)
        for _ in range(120):
            await asyncio.sleep(1)
            assert caller.session.state in (State.PREFILL, State.LIVE) and not caller.wire.closed
        assert not server.engine.heard_from(caller).any()
        for number in range(25):
            await caller.leg.feed(said[number * FRAME_SAMPLES : (number + 1) * FRAME_SAMPLES])
            await asyncio.sleep(0.08)
        await asyncio.sleep(0.5)
        assert _end_of(said[-480:], caller.wire.pcm) is not None
        assert "input.dropped" not in caller.wire.types


@in_virtual_time
async def test_close_in_real_time_answers_what_came() -> None:
    async with Server() as server:
        caller = await server.call(Pace.REALTIME)
        await asyncio.sleep(1)
        await caller.leg.feed(voice(5.5))
        caller.leg.finish()
        await _until_closed(caller)
        assert caller.wire.pcm[-FRAME_SAMPLES // 2 - 1] == voice(5.5)[-1]
        assert caller.wire.closed == [(1000, "the conversation has ended")]


# ---- who does not read, and who is gone ------------------------------------------------------------------------------


@pytest.mark.parametrize("pace", Pace)
@in_virtual_time
async def test_who_stops_reading_is_closed_and_its_neighbour_goes_on(pace: Pace) -> None:
    async with Server() as server:
        lazy, neighbour = await server.call(pace), await server.call(Pace.REALTIME)
        await asyncio.sleep(2)
        lazy.wire.stop_reading()
        before = len(neighbour.wire.frames)
        for _ in range(150):
            feeding = asyncio.create_task(lazy.leg.feed(voice(1)))
            await asyncio.sleep(0.08)
            if feeding.done() and lazy.wire.closed:
                break
            feeding.cancel()
        assert lazy.wire.closed == [(1008, "the client does not read what it is sent")]
        assert lazy.session.state is State.CLOSED
        assert len(server.engine.leases) == 1
        assert len(neighbour.wire.frames) - before > 120
        assert neighbour.session.state is State.LIVE


@pytest.mark.parametrize("pace", Pace)
@in_virtual_time
async def test_a_tab_that_is_closed_during_prefill_frees_its_slot_at_once(pace: Pace) -> None:
    said = voice(1600)
    async with Server(slots=1) as server:
        server.engine.ready_slots = False
        for _ in range(20):
            caller = await server.call(pace)
            feeding = asyncio.create_task(caller.leg.feed(said))
            await asyncio.sleep(0.3)
            assert feeding.done() is (pace is Pace.REALTIME)
            caller.leg.lost()
            await asyncio.sleep(0)
            await caller.session.wait_closed()
            assert server.engine.leases == []
            assert feeding.done()
        server.engine.ready_slots = True
        caller = await server.call(pace)
        await asyncio.sleep(0.5)
        assert caller.session.state is State.LIVE


@in_virtual_time
async def test_a_socket_that_breaks_while_audio_waits_is_noticed_by_a_ping() -> None:
    async with Server(slots=1) as server:
        server.engine.ready_slots = False
        caller = await server.call(Pace.INPUT)
        feeding = asyncio.create_task(caller.leg.feed(voice(1600)))
        await asyncio.sleep(3.5)
        assert not feeding.done()
        caller.wire.fails_with = ConnectionError("reset")
        await asyncio.sleep(1)
        assert server.engine.leases == [] and feeding.done()


@in_virtual_time
async def test_a_caller_with_events_may_come_back_over_a_new_socket() -> None:
    async with Server(slots=1) as server:
        caller = await server.call(Pace.REALTIME, PlainDialect(has_events=True))
        await asyncio.sleep(2)
        caller.leg.lost()
        await asyncio.sleep(1)
        assert caller.session.state is State.DEGRADED
        second = FakeWire()
        attachment = caller.session.expect_leg()
        leg = second.leg = type(caller.leg)(second, PlainDialect(has_events=True), Pace.REALTIME, attachment, now)
        attachment.attach(leg)
        leg.start()
        await asyncio.sleep(1)
        assert caller.session.state is State.LIVE
        assert "session.resumed" in second.types and len(second.frames) > 10


@in_virtual_time
async def test_a_client_that_interrupts_hears_nothing_that_was_not_handed_over() -> None:
    async with Server() as server:
        caller = await server.call(Pace.REALTIME)
        for number in range(50):
            if number == 40:
                caller.wire.stop_reading()
            await caller.leg.feed(voice(1, seed=number))
            await asyncio.sleep(0.08)
        caller.leg.message('{"type":"response.cancel"}')
        caller.wire.read_on()
        await asyncio.sleep(0.2)
        [cancelled] = [word for word in caller.wire.words if word["type"] == "response.cancelled"]
        assert cancelled["dropped_ms"] >= 600
        assert _end_of(voice(1, seed=30)[-480:], caller.wire.pcm) is not None
        assert _end_of(voice(1, seed=45)[-480:], caller.wire.pcm) is None


@in_virtual_time
async def test_the_server_stops_with_a_goodbye_to_everybody() -> None:
    server = Server(slots=3)
    async with server:
        callers = [await server.call(pace) for pace in (Pace.INPUT, Pace.REALTIME, Pace.REALTIME)]
        callers[2].wire.stop_reading()
        await asyncio.sleep(1)
    assert all(caller.wire.closed == [(1012, "the server is shutting down")] for caller in callers)
    assert server.engine.leases == []
