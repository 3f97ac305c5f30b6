from __future__ import annotations

import json

import pytest

from rtc_server import events
from rtc_server.engine.client import SlotStatus
from rtc_server.engine.stepper import FrameSpec, Heard
from rtc_server.session.session import State
from tests.session.conftest import House
from tests.session.fakes import FakeEngine, FakeLeg, speech


async def test_response_starts_once_at_live_without_waiting_for_audio(house: House) -> None:
    session, leg = await house.live_call()
    await house.tick(20, alive=leg)
    assert session.state is State.LIVE
    assert leg.types[:5] == [
        "session.created",
        "session.prefill",
        "session.prefill",
        "session.ready",
        "response.created",
    ]
    assert leg.types.count("response.created") == 1


async def test_every_live_tick_takes_one_frame_and_writes_one(house: House) -> None:
    session, leg = await house.live_call()
    before = len(leg.taken_at), len(leg.written)
    await house.tick(10, alive=leg)
    assert len(leg.taken_at) - before[0] == 10
    assert len(leg.written) - before[1] == 10
    assert session.frames == len(leg.written)


async def test_session_waits_for_its_prefill(house: House) -> None:
    house.engine.ready_slots = False
    session, leg = await house.call()
    await house.tick(5)
    assert session.state is State.PREFILL
    assert leg.taken_at == []
    house.engine.ready_slots = True
    await house.tick(2)
    assert session.state is State.LIVE


async def test_the_caller_sees_the_prefill_move(house: House) -> None:
    house.engine.ready_slots = False
    _, leg = await house.call()
    for done in (0, 40, 40, 90):
        house.engine.prefill = (done, 120)
        await house.tick()
    house.engine.ready_slots = True
    await house.tick(2)
    told = [(event.done, event.total) for event in leg.events if isinstance(event, events.SessionPrefill)]
    assert told == [(0, 1), (0, 120), (40, 120), (90, 120), (120, 120)]


async def test_slot_is_kept_while_the_peer_connects(house: House) -> None:
    session, leg = await house.call(connected=False)
    await house.tick(3)
    assert [live for _, lives, _ in house.engine.exchanges for live in lives] == [False] * 3
    leg.connect()
    await house.tick(1)
    assert session.state is State.LIVE
    assert len(leg.written) == 1


async def test_words_carry_their_frame_and_playout_time(house: House) -> None:
    session, leg = await house.live_call()
    house.engine.text = " hello"
    await house.tick(1)
    delta = leg.of(events.ResponseDelta)[-1]
    assert isinstance(delta, events.ResponseDelta)
    assert (delta.data, delta.frame, delta.rtp_timestamp) == (" hello", session.frames - 1, len(leg.written) * 3840)


async def test_transcripts_of_one_utterance_share_an_item(house: House) -> None:
    _, leg = await house.live_call()
    for text, final in (("what", False), ("what time", True), ("now", True)):
        house.engine.heard = (Heard(text, 10, 20, final),)
        await house.tick(1)
    transcripts = [event for event in leg.events if isinstance(event, events.InputTranscript)]
    assert [(event.item, event.text, event.start_ms, event.end_ms) for event in transcripts] == [
        (0, "what", 800, 1600),
        (0, "what time", 800, 1600),
        (1, "now", 800, 1600),
    ]


async def test_speech_over_the_agent_is_reported_once_and_drops_nothing(house: House) -> None:
    session, leg = await house.live_call()
    house.engine.agent = 8000
    await house.tick(10, alive=leg)
    leg.voice = speech()
    await house.tick(20, alive=leg)
    assert leg.types.count("input.speech_started") == 1
    assert leg.types.count("barge_in") == 1
    assert leg.flushes == 0
    assert "response.cancelled" not in leg.types
    assert session.state is State.LIVE


async def test_engine_that_does_not_hear_interruptions_gets_the_automatic_drop() -> None:
    spec = FrameSpec(name="deaf", summary="Deaf.", hears_interruptions=False)
    house = House(engine=FakeEngine(spec=spec))
    _, leg = await house.live_call()
    house.engine.agent = 8000
    await house.tick(10, alive=leg)
    leg.voice = speech()
    await house.tick(20, alive=leg)
    assert leg.flushes == 1
    cancelled = leg.of(events.ResponseCancelled)
    assert len(cancelled) == 1
    barge_in = leg.of(events.BargeIn)[0]
    assert isinstance(barge_in, events.BargeIn) and isinstance(cancelled[0], events.ResponseCancelled)
    assert barge_in.epoch == cancelled[0].epoch == 1


async def test_cancel_empties_the_playout_and_the_response_goes_on(house: House) -> None:
    session, leg = await house.live_call()
    leg.say('{"type":"response.cancel"}')
    await house.tick(3, alive=leg)
    assert leg.flushes == 1
    assert "response.done" not in leg.types
    assert session.state is State.LIVE
    leg.say('{"type":"response.cancel"}')
    epochs = [event.epoch for event in leg.events if isinstance(event, events.ResponseCancelled)]
    assert epochs == [1, 2]


async def test_playback_ack_corrects_played_ms(house: House) -> None:
    session, leg = await house.live_call()
    await house.tick(10, alive=leg)
    sent_ms = leg.played_ms()
    leg.say(json.dumps({"type": "playback.ack", "cursor": sent_ms - 200}))
    leg.say('{"type":"response.cancel"}')
    cancelled = leg.of(events.ResponseCancelled)[0]
    assert isinstance(cancelled, events.ResponseCancelled)
    assert cancelled.played_ms == sent_ms - 200


@pytest.mark.parametrize(
    "message",
    ["", "nonsense", "[]", '{"type":1}', '{"type":"playback.ack","cursor":-1}', '{"type":"playback.ack"}', "[" * 5000],
)
async def test_malformed_message_gets_an_error_and_the_call_goes_on(house: House, message: str) -> None:
    session, leg = await house.live_call()
    leg.say(message)
    assert leg.types[-1] == "error"
    await house.tick(1)
    assert session.state is State.LIVE


async def test_unknown_message_is_ignored(house: House) -> None:
    session, leg = await house.live_call()
    count = len(leg.events)
    leg.say('{"type":"session.levitate"}')
    assert len(leg.events) == count


async def test_input_append_is_refused_on_a_leg_with_its_own_audio(house: House) -> None:
    session, leg = await house.live_call()
    leg.say('{"type":"input.append","data":""}')
    assert leg.types[-1] == "error"


@pytest.mark.parametrize("message", ['{"type":"input.commit"}', '{"type":"response.create"}'])
async def test_turn_messages_are_accepted_and_harmless(house: House, message: str) -> None:
    session, leg = await house.live_call()
    count = len(leg.events)
    leg.say(message)
    assert len(leg.events) == count
    assert session.state is State.LIVE


@pytest.mark.parametrize("state", ["connecting", "prefill", "live", "degraded"])
async def test_close_from_any_state_ends_everything_once(house: House, state: str) -> None:
    house.engine.ready_slots = state != "prefill"
    session, leg = await house.call(connected=state != "connecting")
    await house.tick(2)
    if state == "degraded":
        house.clock.now += 14
        await house.tick(1)
    assert session.state.value == state
    session.close("test")
    session.close("again")
    await session.wait_closed()
    assert leg.types[-1] == "session.ended"
    assert leg.types.count("response.done") == leg.types.count("response.created")
    assert leg.closed == ["test"]
    assert house.engine.leases == []
    assert len(house.registry) == 0


async def test_closed_session_takes_nothing_more(house: House) -> None:
    session, leg = await house.live_call()
    session.close("test")
    await session.wait_closed()
    count = len(leg.events), len(leg.written)
    leg.say('{"type":"response.cancel"}')
    leg.connect()
    await house.tick(2)
    assert (len(leg.events), len(leg.written)) == count


@pytest.mark.parametrize(
    ("status", "reason"), [(SlotStatus.FAILED, "engine_failed"), (SlotStatus.REVOKED, "engine_lost")]
)
async def test_broken_slot_ends_the_session_with_a_reason(house: House, status: SlotStatus, reason: str) -> None:
    session, leg = await house.live_call()
    house.engine.status = status
    await house.tick(1)
    await session.wait_closed()
    assert leg.closed == [reason]


async def test_statistics_come_once_a_second(house: House) -> None:
    _, leg = await house.live_call()
    await house.tick(125, alive=leg)
    assert 9 <= leg.types.count("session.stats") <= 10


async def test_close_message_ends_the_call(house: House) -> None:
    session, leg = await house.live_call()
    leg.say('{"type":"close"}')
    await session.wait_closed()
    assert leg.closed == ["client_closed"]


async def test_keys_of_the_phone_are_events_until_the_call_has_ended(house: House) -> None:
    session, leg = await house.live_call()
    for digit in "5#":
        leg.handler.on_digit(digit)
    session.close("client_closed")
    leg.handler.on_digit("7")
    assert [event.digit for event in leg.of(events.Dtmf)] == ["5", "#"]


# ---- a caller goes quiet ---------------------------------------------------------------------------------------------


async def test_muted_caller_stays_live_until_the_idle_limit(house: House) -> None:
    session, leg = await house.live_call()
    for _ in range(29):
        house.clock.now += 10
        leg.last_sign_of_life_s = house.clock.now
        await house.tick(1)
    assert session.state is State.LIVE
    house.clock.now += 10
    leg.last_sign_of_life_s = house.clock.now
    await house.tick(1)
    await session.wait_closed()
    assert leg.closed == ["idle"]


async def test_listener_without_a_microphone_has_no_idle_limit(house: House) -> None:
    session, leg = await house.live_call()
    leg.expects_audio = False
    for _ in range(100):
        house.clock.now += 10
        leg.last_sign_of_life_s = house.clock.now
        await house.tick(1)
    assert session.state is State.LIVE


async def test_vanished_caller_is_frozen_then_let_go(house: House) -> None:
    session, leg = await house.live_call()
    frames = session.frames
    house.clock.now += 13.5
    await house.tick(2)
    assert session.state is State.DEGRADED
    assert house.engine.exchanges[-1][1] == [False]
    assert session.frames == frames + 1, "no engine time passes while frozen"
    assert len(house.engine.leases) == 1
    house.clock.now += 17
    await house.tick(1)
    await session.wait_closed()
    assert leg.closed == ["peer_silent"]


async def test_frozen_caller_comes_back_with_everything_kept(house: House) -> None:
    session, leg = await house.live_call()
    house.clock.now += 15
    await house.tick(5)
    assert session.state is State.DEGRADED
    leg.alive()
    await house.tick(3, alive=leg)
    assert session.state is State.LIVE
    resumed = leg.of(events.SessionResumed)[0]
    assert isinstance(resumed, events.SessionResumed)
    assert resumed.context == "kept"
    assert 300 <= resumed.gap_ms <= 500
    assert leg.types.count("response.created") == 1


# ---- an engine too slow ----------------------------------------------------------------------------------------------


async def test_overrun_sheds_the_oldest_input(house: House) -> None:
    session, leg = await house.live_call()
    house.engine.shed = 2
    await house.tick(1, alive=leg)
    house.engine.shed = 0
    taken = len(leg.taken_at)
    await house.tick(1, alive=leg)
    assert len(leg.taken_at) - taken == 1
    assert leg.skipped == 2
    assert session.shed_frames == 2


async def test_leg_that_breaks_ends_only_its_own_session() -> None:
    house = House(engine=FakeEngine(slots=3))
    broken, broken_leg = await house.live_call()
    healthy, healthy_leg = await house.live_call()
    broken_leg.fail_on_write = True
    await house.tick(5, alive=healthy_leg)
    await broken.wait_closed()
    assert broken.state is State.CLOSED
    assert healthy.state is State.LIVE
    assert broken_leg.closed == ["internal_error"]
    assert isinstance(healthy_leg, FakeLeg)
