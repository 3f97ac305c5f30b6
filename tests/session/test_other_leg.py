"""A conversation goes on over a leg of another kind: one whose clock is time, or one whose audio is the clock."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from rtc_server import events
from rtc_server.engine.client import Live
from rtc_server.media.pcm import to_int16
from rtc_server.session.session import State
from tests.session.conftest import House
from tests.session.fakes import FakeLeg, speech


class Kind(NamedTuple):
    speaking: Live
    """`Leg.live` while a frame of the caller's waits."""
    silent: Live
    """While none does."""


TIMED = Kind(Live.YES, Live.YES)
"""A WebRTC call, or a socket at real-time pace."""
PACED = Kind(Live.ONCE, Live.NO)
"""A socket at the pace of its input."""


async def exchanged(house: House, leg: FakeLeg, live: Live, frames: int) -> list[int]:
    """What the engine is told in that many ticks."""
    first = len(house.engine.exchanges)
    leg.live = live
    await house.tick(frames, alive=leg)
    return [told for _, (told,), _ in house.engine.exchanges[first:]]


@pytest.mark.parametrize("leaves", [True, False], ids=["after it left", "while it still talks"])
@pytest.mark.parametrize(
    "kinds",
    [(PACED, TIMED, PACED), (TIMED, PACED, TIMED), (PACED, PACED)],
    ids=["paced, timed and back", "timed, paced and back", "paced and paced again"],
)
async def test_each_leg_brings_its_own_clock(house: House, kinds: tuple[Kind, ...], leaves: bool) -> None:
    session, leg = await house.live_call()
    lease = session.lease
    for number, (before, kind) in enumerate(itertools.pairwise(kinds)):
        assert await exchanged(house, leg, before.speaking, 3) == [before.speaking] * 3
        if leaves:
            leg.end()
            frames = session.frames
            await house.tick(5)
            assert (session.state, session.frames) == (State.DEGRADED, frames)
        old, leg = leg, FakeLeg(house.clock, speech(number))
        leg.live = kind.silent
        house.add_leg(session, leg)

        frames, written = session.frames, len(old.written)
        assert await exchanged(house, leg, kind.silent, 4) == [kind.silent] * 4
        assert session.frames == frames + (4 if kind is TIMED else 0)
        assert await exchanged(house, leg, kind.speaking, 3) == [kind.speaking] * 3
        assert await exchanged(house, leg, kind.silent, 2) == [kind.silent] * 2
        assert len(leg.written) == len(leg.taken_at) == session.frames - frames == (9 if kind is TIMED else 3)
        assert len(old.written) == written
        heard = [pcm[0] for _, (live,), pcm in house.engine.exchanges[-9:] if live]
        assert all(np.array_equal(frame, to_int16(leg.voice)) for frame in heard)
        assert leg.last_of(events.SessionResumed).context == "kept"
        assert "response.created" not in leg.types and "response.done" not in old.types
    assert session.state is State.LIVE
    assert session.frames == sum(bool(live) for _, (live,), _ in house.engine.exchanges)
    assert house.engine.leases == [lease] == [session.lease] and len(house.engine.prompts) == 1


async def test_a_prefill_that_one_kind_began_is_ready_for_the_other(house: House) -> None:
    house.engine.ready_slots = False
    session, timed = await house.call()
    paced = FakeLeg(house.clock)
    paced.live = Live.NO
    house.add_leg(session, paced)
    house.engine.ready_slots = True
    await house.tick(2, alive=paced)
    assert session.state is State.LIVE and house.stepped_frames == 0
    assert paced.types[-2:] == ["session.ready", "response.created"] and "session.ready" not in timed.types
