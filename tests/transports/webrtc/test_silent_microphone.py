"""Minutes in which a caller's browser sends no sound: a phone call has the microphone, or its prompt is still open.

In virtual time, through ICE, DTLS, SRTP, jitter buffer, session and conductor.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from rtc_server.errors import EngineFull
from rtc_server.media.frames import FRAME_S, SAMPLE_RATE, FloatSamples
from rtc_server.session.session import Session, State
from tests.transports.webrtc.memorycallers import ICE_TIMEOUT_S, Browser, Server, loudness
from tests.transports.websocket.virtualloop import in_virtual_time, now

SPEECH_RMS, SILENCE_RMS = 0.1, 0.001
SETTLES_S = 1.0
"""A jitter buffer that runs empty fades out, and one that fills finds its delay."""
PACKETS_PER_S = 50


def heard_by_the_engine(server: Server, session: Session, since_s: float) -> FloatSamples:
    """What its slot was stepped with in the last seconds, since `since_s`."""
    rows = server.engine.heard_by[session.lease][-round((now() - since_s) / FRAME_S) :]
    return np.concatenate(rows).astype(np.float32) / 32768


async def states_during(session: Session, seconds: float) -> set[State]:
    """Every state that the session is in for a tick or longer."""
    seen = set()
    end_s = now() + seconds
    while now() < end_s:
        seen.add(session.state)
        await asyncio.sleep(FRAME_S)
    return seen


@pytest.mark.parametrize(("pause_s", "clock_of_audio"), [(60, "stands still"), (120, "runs on")])
@in_virtual_time
async def test_a_caller_whose_microphone_is_taken_for_minutes_stays_and_is_heard_again(
    pause_s: int, clock_of_audio: str
) -> None:
    async with Server() as server:
        browser = Browser(server)
        session = await browser.call()
        leg = session.leg
        await browser.speak(3)
        delay_ms = browser.delay_ms
        began_s, frames, packets = now(), session.frames, len(browser.numbers)
        assert loudness(heard_by_the_engine(server, session, began_s - 1)) > SPEECH_RMS
        assert loudness(browser.heard_since(began_s - 1)) > SPEECH_RMS

        assert await states_during(session, pause_s) == {State.LIVE}
        assert session.leg is leg and len(server.engine.leases) == 1
        assert session.frames - frames == pytest.approx(pause_s / FRAME_S, abs=2), "time goes on for the agent"
        assert loudness(heard_by_the_engine(server, session, began_s + SETTLES_S)) < SILENCE_RMS
        assert len(browser.numbers) - packets == pytest.approx(pause_s * PACKETS_PER_S, abs=5), "the agent may speak"
        assert set(np.diff(browser.numbers) % 2**16) == {1}

        if clock_of_audio == "runs on":
            browser.let_the_clock_of_audio_run(pause_s)
        back_s = now()
        await browser.speak(3)
        heard = heard_by_the_engine(server, session, back_s)
        assert np.flatnonzero(np.abs(heard) > SPEECH_RMS)[0] / SAMPLE_RATE < 0.5, "heard at once"
        assert loudness(heard_by_the_engine(server, session, now() - 1)) > SPEECH_RMS
        assert loudness(browser.heard_since(now() - 1)) > SPEECH_RMS
        assert browser.delay_ms <= delay_ms + 21, "the pause has left no delay behind"
        assert session.state is State.LIVE and session.leg is leg
        session.close("client_closed")
        await session.wait_closed()
        await browser.leave()


@in_virtual_time
async def test_a_caller_who_sends_no_sound_and_no_checks_is_let_go() -> None:
    """What keeps a silent caller is its checks."""
    async with Server() as server:
        browser = Browser(server)
        session = await browser.call()
        await browser.speak(1)
        await browser.stop_checking()
        assert await states_during(session, 40) == {State.LIVE, State.DEGRADED, State.CLOSED}
        server.assert_nothing_left()
        await browser.leave()


@in_virtual_time
async def test_who_allows_the_microphone_two_minutes_into_the_call_is_heard() -> None:
    """A page that connects first and asks afterwards."""
    async with Server() as server:
        browser = Browser(server)
        session = await browser.call()
        await asyncio.sleep(SETTLES_S)
        assert await states_during(session, 120) == {State.LIVE}
        assert loudness(browser.heard_since(0)) < SILENCE_RMS
        await browser.speak(3)
        assert loudness(heard_by_the_engine(server, session, now() - 1)) > SPEECH_RMS
        assert loudness(browser.heard_since(now() - 1)) > SPEECH_RMS
        await browser.leave()


@in_virtual_time
async def test_an_offer_whose_browser_waits_for_the_person_holds_nothing_for_long_and_a_later_call_works() -> None:
    """A page that posts its offer and connects only when the microphone is allowed, two minutes later."""
    async with Server() as server:
        early = Browser(server)
        session, _, _ = await server.offer(early.offer())
        with pytest.raises(EngineFull):
            server.house.admission.check()
        await asyncio.sleep(ICE_TIMEOUT_S + 1)
        assert session.state is State.CLOSED
        server.assert_nothing_left()
        server.house.admission.check()
        await asyncio.sleep(120 - ICE_TIMEOUT_S - 1)
        assert not any(live for _, row, _ in server.engine.exchanges for live in row), "no step was spent on it"

        again = await early.call()
        await early.speak(2)
        assert again.state is State.LIVE
        assert loudness(early.heard_since(now() - 1)) > SPEECH_RMS
        await early.leave()
