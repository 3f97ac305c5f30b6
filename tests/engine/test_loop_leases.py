"""Who may use a slot, and when it is handed on. In virtual time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rtc_server.engine.client import Lease, SlotStatus
from rtc_server.engine.loop import EngineLoop
from rtc_server.engine.slots import LEASE_TTL_S, SlotsClosing
from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import EngineDraining, EngineFull, UnknownVoice
from tests.engine.fakes import World


def _status(world: World, lease: Lease, live: bool = True) -> SlotStatus:
    return world.exchange(lease, live=[live]).outputs[0].status


def test_a_slot_goes_from_prefill_over_ready_to_live_and_frozen() -> None:
    world = World(prefill_s=0.1)
    lease = world.reserve()
    seen = [_status(world, lease, live) for live in (False, False, False, True, True, False, False, True)]
    assert [status.value for status in seen] == [
        "prefill",
        "ready",
        "ready",
        "live",
        "live",
        "frozen",
        "frozen",
        "live",
    ]


def test_a_frozen_slot_is_not_stepped() -> None:
    world = World()
    one, other = world.go_live(2)
    world.exchange(one, other, live=[True, False])
    assert world.stepper.steps[-1][2].tolist() == [True, False]
    before = len(world.stepper.steps)
    world.exchange(one, other, live=[False, False])
    assert len(world.stepper.steps) == before


def test_the_row_of_a_frozen_slot_is_ignored() -> None:
    world = World()
    one, other = world.go_live(2)
    world.exchange(one, other, live=[True, False], value=2000)
    _, pcm, _ = world.stepper.steps[-1]
    assert pcm[one.slot].any() and not pcm[other.slot].any()


def test_every_slot_can_be_reserved_and_not_one_more() -> None:
    world = World(slots=3)
    leases = [world.reserve() for _ in range(3)]
    assert sorted(lease.slot for lease in leases) == [0, 1, 2]
    assert len({lease.token for lease in leases}) == 3
    with pytest.raises(EngineFull, match="all 3 slots"):
        world.reserve()


def test_a_voice_that_the_engine_does_not_have_is_refused_before_a_slot_is_taken() -> None:
    world = World()
    with pytest.raises(UnknownVoice, match="default, other"):
        world.loop.reserve(SessionPrompt(voice="nobody" * 100))
    assert world.loop.capacity().in_use == 0


def test_a_lease_that_nobody_uses_for_five_seconds_is_freed() -> None:
    world = World()
    one, other = world.go_live(2)
    began_s = world.clock.now
    while world.clock.now < began_s + LEASE_TTL_S + 0.2:
        world.exchange(other)
    assert world.stepper.closed == [one.slot]
    assert [output.status for output in world.exchange(one, other).outputs] == [SlotStatus.REVOKED, SlotStatus.LIVE]
    assert world.reserve().slot == one.slot


def test_a_lease_that_was_reserved_and_never_used_is_freed() -> None:
    world = World()
    world.reserve()
    world.run_until(world.clock.now + LEASE_TTL_S - 0.1)
    assert world.loop.capacity().in_use == 1
    world.run_until(world.clock.now + 0.3)
    assert world.loop.capacity().in_use == 0


def test_a_frozen_lease_lives_as_long_as_it_is_renewed() -> None:
    world = World()
    [lease] = world.go_live()
    for _ in range(200):
        assert _status(world, lease, live=False) is SlotStatus.FROZEN


def test_who_waits_for_a_step_longer_than_five_seconds_keeps_the_lease() -> None:
    world = World()
    [lease] = world.go_live()
    world.stepper.step_s = LEASE_TTL_S + 2
    result = world.exchange(lease)
    assert result.outputs[0].status is SlotStatus.LIVE
    assert result.shed >= 80
    world.stepper.step_s = 0.01
    assert _status(world, lease) is SlotStatus.LIVE


def test_an_exchange_that_came_in_during_a_very_long_step_keeps_the_lease() -> None:
    world = World()
    one, other = world.go_live(2)
    world.run_ticks(1)
    world.stepper.step_s = LEASE_TTL_S + 2
    exchanges = []
    world.clock.at(world.loop._edges.due_s + 0.5, lambda: exchanges.append(world.submit(other)))
    world.run_ticks(1)
    world.stepper.step_s = 0.01
    world.run_ticks(100)
    assert exchanges[0].result is not None
    assert exchanges[0].result.outputs[0].status is SlotStatus.LIVE
    assert _status(world, one) is SlotStatus.REVOKED


def test_a_machine_that_slept_takes_no_lease_away() -> None:
    world = World()
    one, other = world.go_live(2)
    world.exchange(one, other)
    world.clock.advance(60.0)
    world.loop.poll()  # the engine wakes up before its client does
    assert [output.status for output in world.exchange(one, other).outputs] == [SlotStatus.LIVE, SlotStatus.LIVE]


def test_who_does_not_come_back_after_a_sleep_loses_the_lease() -> None:
    world = World()
    one, other = world.go_live(2)
    world.exchange(one, other)
    world.clock.advance(60.0)
    world.loop.poll()
    awake_s = world.clock.now
    while world.clock.now < awake_s + LEASE_TTL_S + 0.2:
        world.exchange(other)
    assert world.stepper.closed == [one.slot]


@pytest.mark.parametrize(
    "forged",
    [
        {"token": "f" * 32},
        {"token": ""},
        {"slot": 1},
        {"slot": -1},
        {"slot": 99},
        {"incarnation": "x"},
        {"engine_id": "x"},
    ],
)
def test_a_lease_that_does_not_hold_is_revoked_and_touches_nothing(forged: dict[str, object]) -> None:
    world = World()
    [lease] = world.go_live()
    stale = dataclasses.replace(lease, **forged)  # type: ignore[arg-type]
    exchange = world.submit(lease, value=1)
    revoked = world.submit(stale, value=20_000)
    world.loop.release(stale)
    world.run_ticks(2)
    assert revoked.result is not None and exchange.result is not None
    assert revoked.result.outputs[0].status is SlotStatus.REVOKED
    assert revoked.result.outputs[0].pcm is None
    assert exchange.result.outputs[0].pcm is not None and exchange.result.outputs[0].pcm[0] == 1
    assert all(pcm.max() < 0.1 for _, pcm, _ in world.stepper.steps)


def test_a_restarted_engine_refuses_an_old_lease() -> None:
    world = World()
    [lease] = world.go_live()
    restarted = EngineLoop(world.stepper, clock=world.clock)
    exchange = restarted.submit([lease], [True], 0, np.zeros((1, 1920), np.int16))
    world.clock.advance(0.1)
    restarted.poll()
    assert exchange.result is not None
    assert exchange.result.outputs[0].status is SlotStatus.REVOKED


def test_while_draining_nobody_new_comes_in_and_those_inside_go_on() -> None:
    world = World()
    [lease] = world.go_live()
    world.loop.drain()
    with pytest.raises(EngineDraining):
        world.reserve()
    assert _status(world, lease) is SlotStatus.LIVE
    assert world.loop.capacity().draining
    assert world.loop.capacity().ready


def test_release_may_come_twice() -> None:
    world = World()
    [lease] = world.go_live()
    world.loop.release(lease)
    world.loop.release(lease)
    world.run_ticks(1)
    world.loop.release(lease)
    assert world.stepper.closed == [lease.slot]
    assert world.loop.capacity().in_use == 0


def test_a_slot_is_not_handed_on_while_a_step_of_its_old_owner_runs() -> None:
    world = World(slots=1, step_s=0.050)
    [lease] = world.go_live()
    world.run_until(world.loop._edges.opens_s + 0.001)
    exchange = world.submit(lease)
    refused: list[bool] = []

    def give_back_and_ask_again() -> None:
        world.loop.release(lease)
        with pytest.raises(SlotsClosing):
            world.reserve()
        refused.append(True)
        assert world.stepper.closed == []

    world.clock.at(world.clock.now + 0.020, give_back_and_ask_again)
    world.run_ticks(1)
    assert refused == [True]
    assert exchange.result is not None
    assert exchange.result.outputs[0].status is SlotStatus.REVOKED
    assert world.stepper.closed == [0]
    new = world.reserve()
    assert new.slot == 0
    assert world.exchange(lease, new).outputs[0].status is SlotStatus.REVOKED


def test_a_slot_that_is_given_back_during_its_prefill_is_closed_after_it() -> None:
    world = World(slots=1, prefill_s=0.050)
    lease = world.reserve()
    world.clock.at(world.clock.now + 0.020, lambda: world.loop.release(lease))
    world.run_ticks(1)
    assert world.stepper.closed == [0]
    assert world.loop.capacity().in_use == 0
    assert world.go_live()[0].slot == 0


def test_a_slot_that_is_given_back_while_it_is_opened_is_closed_after_it() -> None:
    world = World(slots=1)
    world.stepper.open_s = 0.010
    lease = world.reserve()
    world.clock.at(world.clock.now + 0.005, lambda: world.loop.release(lease))
    world.run_ticks(1)
    assert world.stepper.closed == [0]
    assert world.stepper.prefills == []
    assert world.go_live()[0].slot == 0


def test_a_slot_that_is_given_back_before_it_was_opened_is_free_at_once() -> None:
    world = World(slots=1)
    world.loop.release(world.reserve())
    assert world.loop.capacity().in_use == 0
    world.run_ticks(1)
    assert world.stepper.closed == []


def test_a_freed_slot_is_reported_so_that_waiting_callers_can_try_again() -> None:
    world = World(slots=1)
    [lease] = world.go_live()
    world.loop.release(lease)
    assert world.loop.poll().freed
    assert not world.loop.poll().freed
