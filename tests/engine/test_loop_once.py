"""Slots that are live once a frame, in virtual time: their owner's audio is the clock, not the edges."""

from __future__ import annotations

import random

import numpy as np
from prometheus_client import REGISTRY

from rtc_server.engine.client import Lease, Live, SlotStatus
from tests.engine.fakes import World


def _missing() -> float:
    return REGISTRY.get_sample_value("engine_inputs_missing_total") or 0.0


def _steps_of(world: World, lease: Lease) -> list[int]:
    """First sample of each frame that this slot was stepped with."""
    return [round(float(pcm[lease.slot][0]) * 32768) for _, pcm, live in world.stepper.steps if live[lease.slot]]


def _frozen(world: World, *leases: Lease) -> None:
    world.exchange(*leases, live=[Live.NO] * len(leases))
    world.stepper.steps.clear()


def test_a_frame_that_is_to_be_stepped_once_is_stepped_once() -> None:
    world = World()
    [lease] = world.go_live()
    _frozen(world, lease)
    missing = _missing()
    output = world.exchange(lease, live=[Live.ONCE], value=7).outputs[0]
    assert output.status is SlotStatus.LIVE and output.pcm is not None and output.pcm[0] == 7
    world.run_ticks(20)
    assert _steps_of(world, lease) == [7]
    assert _missing() == missing
    assert world.exchange(lease, live=[Live.NO]).outputs[0].status is SlotStatus.FROZEN


def test_frames_at_any_pace_are_stepped_each_once_and_in_order() -> None:
    rng = random.Random(1)
    world = World()
    [lease] = world.go_live()
    _frozen(world, lease)
    for value in range(1, 101):
        assert world.exchange(lease, live=[Live.ONCE], value=value).outputs[0].status is SlotStatus.LIVE
        world.run_until(world.clock.now + rng.choice((0.0, 0.0, 0.001, 0.079, 0.3)))
    assert _steps_of(world, lease) == list(range(1, 101))


def test_no_more_than_one_frame_an_edge() -> None:
    world = World(step_s=0.001)
    [lease] = world.go_live()
    began_s = world.clock.now
    for value in range(50):
        world.exchange(lease, live=[Live.ONCE], value=value)
    assert world.clock.now - began_s >= 48 * 0.080


def test_a_neighbour_is_stepped_in_every_tick_and_waits_for_nobody() -> None:
    world = World()
    once, always = world.go_live(2)
    _frozen(world, once)
    world.exchange(once, always, live=[Live.ONCE, Live.YES], value=3)
    for _ in range(10):
        edge_s = world.loop._edges.due_s
        world.run_until(edge_s - 0.030)
        world.submit(always, value=4)
        world.run_until(edge_s - 0.015)
        assert world.stepper.steps[-1][0] < edge_s - 0.016  # every frame that can be expected is in
    assert _steps_of(world, once) == [3]
    assert _steps_of(world, always)[-10:] == [4] * 10


def test_its_silence_is_nobody_elses() -> None:
    world = World()
    once, always = world.go_live(2)
    _frozen(world, once)
    world.exchange(once, always, live=[Live.NO, Live.YES], value=9)
    _, pcm, live = world.stepper.steps[-1]
    assert not live[once.slot] and not pcm[once.slot].any() and np.all(np.rint(pcm[always.slot] * 32768) == 9)


def test_an_owner_who_no_longer_waits_has_its_frame_stepped_all_the_same() -> None:
    world = World()
    [lease] = world.go_live()
    _frozen(world, lease)
    world.loop.withdraw(world.submit(lease, live=[Live.ONCE], value=5))
    world.run_ticks(5)
    assert _steps_of(world, lease) == [5]


def test_whoever_says_always_again_is_stepped_in_every_tick() -> None:
    world = World()
    [lease] = world.go_live()
    _frozen(world, lease)
    world.exchange(lease, live=[Live.ONCE], value=5)
    world.exchange(lease, live=[Live.YES], value=6)
    world.run_ticks(3)
    assert _steps_of(world, lease) == [5, 6, 0, 0]
