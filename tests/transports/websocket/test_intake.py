from __future__ import annotations

import asyncio

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_SAMPLES
from rtc_server.transports.websocket.intake import READ_AHEAD_SAMPLES, Intake, Pace
from tests.transports.websocket.fakes import voice
from tests.transports.websocket.virtualloop import in_virtual_time, now

MOST_FRAMES = 13 + READ_AHEAD_SAMPLES // FRAME_SAMPLES
"""Read ahead, and in the queue behind them."""


@pytest.mark.parametrize("chunk_samples", [10**9, 24_000, 1001])
@in_virtual_time
async def test_at_the_pace_of_the_input_two_minutes_are_read_ahead_and_nothing_is_lost(chunk_samples: int) -> None:
    said = voice(MOST_FRAMES)
    async with asyncio.timeout(0):
        intake = Intake(Pace.INPUT, now)
        for start in range(0, said.size, chunk_samples):
            await intake.feed(said[start : start + chunk_samples])
    heard = []
    while intake.frame_ready:
        heard.append(intake.take(now()))
    assert np.array_equal(np.concatenate(heard), said)


@in_virtual_time
async def test_what_is_longer_waits_for_room_and_none_of_it_is_lost() -> None:
    intake, said = Intake(Pace.INPUT, now), voice(MOST_FRAMES + 100)
    feeding = asyncio.create_task(intake.feed(said))
    heard = []
    for _ in range(MOST_FRAMES + 100):
        await asyncio.sleep(0.08)
        assert intake.queued_ms < (MOST_FRAMES + 1) * 80
        assert feeding.done() is (len(heard) >= 100)
        heard.append(intake.take(now()))
    assert not intake.frame_ready
    assert np.array_equal(np.concatenate(heard), said)


@in_virtual_time
async def test_it_is_known_when_audio_had_to_wait() -> None:
    intake = Intake(Pace.INPUT, now)
    feeding = asyncio.create_task(intake.feed(voice(MOST_FRAMES + 1)))
    await asyncio.sleep(1)
    intake.take(now())
    await feeding
    assert intake.waited_s == now()


@in_virtual_time
async def test_audio_that_is_heard_late_counts_from_then() -> None:
    intake = Intake(Pace.INPUT, now)
    await intake.feed(voice(1.5))
    came_s = now()
    await asyncio.sleep(60)
    assert intake.last_audio_s == came_s
    intake.take(now())
    heard_s = now()
    await asyncio.sleep(1)
    intake.take(now())
    assert intake.last_audio_s == heard_s


@in_virtual_time
async def test_the_last_piece_is_padded() -> None:
    intake = Intake(Pace.INPUT, now)
    await intake.feed(voice(1.5))
    intake.take(0.0)
    assert not intake.frame_ready and not intake.ended
    intake.finish()
    assert intake.frame_ready and not intake.ended
    last = intake.take(0.0)
    assert np.array_equal(last[:960], voice(1.5)[-960:]) and not last[960:].any()
    assert intake.ended


@pytest.mark.parametrize("pace", Pace)
@in_virtual_time
async def test_what_comes_after_the_end_is_ignored(pace: Pace) -> None:
    intake = Intake(pace, now)
    intake.finish()
    await intake.feed(voice(200))
    assert intake.ended and intake.dropped_ms == 0


@in_virtual_time
async def test_the_end_lets_go_of_audio_that_waits() -> None:
    intake = Intake(Pace.INPUT, now)
    feeding = asyncio.create_task(intake.feed(voice(MOST_FRAMES + 1)))
    await asyncio.sleep(1)
    assert not feeding.done()
    intake.close()
    await feeding


@in_virtual_time
async def test_in_real_time_audio_never_waits_and_the_newest_second_stays() -> None:
    intake, said = Intake(Pace.REALTIME, now), voice(100)
    intake.take(now())
    await intake.feed(said)
    assert 1000 <= intake.queued_ms <= 1080
    assert 8000 - 1080 <= intake.dropped_ms <= 7000


@in_virtual_time
async def test_the_first_frame_is_of_the_present() -> None:
    intake, said = Intake(Pace.REALTIME, now), voice(50)
    for start in range(0, said.size, 480):
        await intake.feed(said[start : start + 480])
    intake.take(now())
    assert intake.queued_ms < 80
    assert intake.dropped_ms == 0  # nobody was there to miss it


@in_virtual_time
async def test_at_the_pace_of_the_input_what_came_early_is_heard() -> None:
    intake, said = Intake(Pace.INPUT, now), voice(10)
    await intake.feed(said)
    assert np.array_equal(intake.take(now()), said[:FRAME_SAMPLES])


@pytest.mark.parametrize(("pace", "skipped"), [(Pace.INPUT, 0), (Pace.REALTIME, 3)])
@in_virtual_time
async def test_only_real_time_skips_what_is_past(pace: Pace, skipped: int) -> None:
    intake = Intake(pace, now)
    await intake.feed(voice(5))
    assert intake.skip(3) == skipped
    assert intake.queued_ms == (5 - skipped) * 80
    assert intake.dropped_ms == 0
