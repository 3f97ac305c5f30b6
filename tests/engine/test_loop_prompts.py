"""What a stepper may say about prompts: that it cannot take one, and how far it is with one. In virtual time."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_server.engine.client import SlotStatus
from rtc_server.engine.loop import EngineLoop
from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import TooLarge
from tests.engine.fakes import ScriptedStepper, VirtualClock, World


class Particular(ScriptedStepper):
    """Takes personas of four characters, and says how far it is."""

    def check_prompt(self, prompt: SessionPrompt) -> None:
        if len(prompt.persona or "") > 4:
            raise TooLarge("the persona has 5 characters, and the limit is 4", hint="shorten it")

    def progress(self, slot: int) -> tuple[int, int]:
        return round(100 * (self.prefill_s - self._left_s[slot])), round(100 * self.prefill_s)


def world() -> World:
    world = World()
    world.stepper = Particular(clock := VirtualClock(), slots=1, prefill_s=0.2)
    world.clock, world.origin_s = clock, clock.now
    world.loop = EngineLoop(world.stepper, clock=clock)
    return world


def test_a_prompt_that_the_stepper_refuses_takes_no_slot() -> None:
    here = world()
    with pytest.raises(TooLarge, match="limit is 4; shorten it"):
        here.loop.reserve(SessionPrompt(persona="abcde"))
    assert here.loop.capacity().in_use == 0
    assert here.loop.reserve(SessionPrompt(persona="abcd")).slot == 0


def test_the_owner_of_a_slot_sees_its_prefill_move() -> None:
    here = world()
    lease = here.loop.reserve(SessionPrompt())
    seen = []
    while (output := here.exchange(lease, live=[False]).outputs[0]).status is SlotStatus.PREFILL:
        seen.append(output.prefill)
    done, totals = zip(*seen, strict=True)
    assert set(totals) <= {0, 20}
    assert sorted(done) == list(done)
    assert np.ptp(done) > 0


def test_the_next_owner_does_not_see_the_progress_of_the_last() -> None:
    here = world()
    lease = here.loop.reserve(SessionPrompt())
    here.exchange(lease, live=[False])
    here.exchange(lease, live=[False])
    here.loop.release(lease)
    here.run_ticks(1)
    lease = here.loop.reserve(SessionPrompt())
    assert here.submit(lease, live=[False]).result is None
    assert here.loop._table[0].progress == (0, 0)
