"""A real client whose acknowledgements are lost: sound goes on, nothing grows, and the newest words come afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from rtc_server import events
from rtc_server.transports.webrtc.datachannel import IN_FLIGHT_BYTES, WAITING_EVENTS
from tests.transports.webrtc.callers import Caller, echoing, house, let_aioice_use_loopback
from tests.transports.webrtc.test_lossy_path import lose
from tests.transports.webrtc.waiting import eventually

TICKS_OF_A_MINUTE = 750


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    let_aioice_use_loopback(monkeypatch)
    yield


def heard_samples(caller: Caller) -> int:
    return sum(map(len, caller.heard))


async def test_a_minute_of_words_that_nobody_acknowledges_holds_up_nothing_and_grows_nothing() -> None:
    async with house() as home:
        caller = Caller()
        leg, _ = await home.connect(caller)
        await eventually(lambda: caller.channel.readyState == "open")
        blocked = True
        lose(leg, lambda data: blocked)
        async with echoing(leg):
            before = heard_samples(caller)
            for seq in range(1, TICKS_OF_A_MINUTE + 1):
                delta = events.ResponseDelta(response_index=0, data="word " * 20, frame=seq, rtp_timestamp=None)
                leg.send_event(events.Numbered(seq, delta))
                await asyncio.sleep(0.003)
            assert leg._events._channel is not None
            assert leg._events._channel.bufferedAmount <= 2 * IN_FLIGHT_BYTES
            assert len(leg._events._waiting) <= WAITING_EVENTS
            await eventually(lambda: heard_samples(caller) > before + 2 * 48_000)
            blocked = False
            await eventually(lambda: bool(caller.messages) and newest(caller) == TICKS_OF_A_MINUTE, 15)
        seen = [json.loads(message)["seq"] for message in caller.messages]
        assert seen == sorted(seen)
        assert len(seen) < TICKS_OF_A_MINUTE / 2
        await caller.close()


def newest(caller: Caller) -> int:
    seq: int = json.loads(caller.messages[-1])["seq"]
    return seq
