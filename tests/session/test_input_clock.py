"""A caller whose audio is the clock: engine time that goes by without it is no loss. The laws of it: test_laws."""

from __future__ import annotations

from rtc_server import events
from rtc_server.engine.client import Live
from rtc_server.engine.stepper import FRAME_SAMPLES
from tests.session.conftest import House
from tests.session.fakes import FakeEngine, FakeLeg


class PatientLeg(FakeLeg):
    def skip(self, frames: int) -> int:
        super().skip(frames)
        return 0


async def test_only_what_a_leg_skipped_counts_as_shed() -> None:
    house = House(engine=FakeEngine(slots=2, shed=1))
    _, timed = await house.call()
    _, patient = await house.call(PatientLeg(house.clock))
    await house.tick(20, alive=timed)
    assert timed.skipped == patient.skipped > 10
    assert timed.last_of(events.SessionStats).shed > 10
    assert patient.last_of(events.SessionStats).shed == 0


async def test_its_neighbours_are_stepped_while_it_is_not(house: House) -> None:
    waiting = FakeLeg(house.clock)
    waiting.live = Live.NO
    await house.call(waiting)
    _, timed = await house.live_call()
    await house.tick(10, alive=timed)
    _, live, pcm = house.engine.exchanges[-1]
    assert live == [Live.NO, Live.YES] and pcm.shape == (2, FRAME_SAMPLES)
    assert not waiting.written and len(timed.written) > 10
