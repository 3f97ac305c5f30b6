"""The clock, prefill and failures of the engine loop, in virtual time. Slots and leases: test_loop_leases."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from prometheus_client import REGISTRY

from rtc_server.engine.client import SlotStatus
from rtc_server.engine.loop import EngineLoop
from rtc_server.engine.stepper import FRAME_SAMPLES, SessionPrompt
from rtc_server.engine.tick import Turn
from rtc_server.errors import EngineUnavailable
from tests.engine.fakes import Conductor, ScriptedStepper, VirtualClock, World


def _count(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


# ---- the clock -------------------------------------------------------------------------------------------------------


def test_ten_thousand_ticks_keep_their_absolute_edges() -> None:
    rng = random.Random(1)
    world = World(step_s=0.0)
    world.stepper.step_s = lambda: rng.uniform(0.001, 0.060)
    conductor = Conductor(world, world.go_live(), margin_s=lambda: rng.uniform(0.0005, 0.015))
    first = len(world.stepper.steps)
    world.run_ticks(10_000)
    results = conductor.results
    assert [result.tick for result in results] == list(range(results[0].tick, results[0].tick + len(results)))
    assert len(results) >= 9_999
    assert sum(result.shed for result in results) == 0
    for result, (began_s, _, _) in zip(results, world.stepper.steps[first:], strict=False):
        assert world.edge_s(result.tick) - 0.080 <= began_s <= world.edge_s(result.tick) + 1e-9


def test_next_tick_in_s_is_the_time_to_the_next_edge() -> None:
    world = World(step_s=0.020)
    [lease] = world.go_live()
    exchange = world.submit(lease)
    world.run_ticks(1)
    result = exchange.result
    assert result is not None
    assert world.answered[exchange] + result.next_tick_in_s == pytest.approx(world.edge_s(result.tick + 1))
    assert result.step_s == pytest.approx(0.020)


def test_a_tick_runs_early_once_every_live_slot_has_its_frame() -> None:
    world = World()
    one, other = world.go_live(2)
    world.run_ticks(1)
    edge_s = world.loop._edges.due_s
    world.clock.at(edge_s - 0.020, lambda: world.submit(one))
    world.clock.at(edge_s - 0.007, lambda: world.submit(other))
    world.run_until(edge_s - 0.001)
    assert world.stepper.steps[-1][0] == pytest.approx(edge_s - 0.007)


def test_a_client_that_does_not_pace_itself_gets_one_tick_per_edge() -> None:
    world = World(step_s=0.001)
    [lease] = world.go_live()
    began_s = world.clock.now
    ticks = [world.exchange(lease).tick for _ in range(100)]
    assert ticks == list(range(ticks[0], ticks[0] + 100))
    assert world.clock.now - began_s >= 98 * 0.080


def test_a_live_slot_without_a_frame_is_stepped_with_silence_and_counted() -> None:
    world = World()
    one, other = world.go_live(2)
    world.run_ticks(1)
    missing = _count("engine_inputs_missing_total")
    exchange = world.submit(one, value=5000)
    world.run_ticks(1)
    assert exchange.result is not None
    assert exchange.result.outputs[0].status is SlotStatus.LIVE
    _, pcm, live = world.stepper.steps[-1]
    assert live.tolist() == [True, True]
    assert pcm[one.slot].any() and not pcm[other.slot].any()
    assert _count("engine_inputs_missing_total") == missing + 1


def test_a_late_frame_is_stepped_with_the_next_edge_and_not_lost() -> None:
    world = World()
    [lease] = world.go_live()
    world.run_ticks(1)
    edge_s = world.loop._edges.due_s
    world.run_until(edge_s + 0.001)
    exchange = world.submit(lease, value=7)
    world.run_ticks(1)
    assert exchange.result is not None
    assert exchange.result.outputs[0].pcm is not None and exchange.result.outputs[0].pcm[0] == 7


@pytest.mark.parametrize(("step_s", "shed"), [(0.079, 0), (0.081, 1), (0.159, 1), (0.200, 2), (1.0, 12)])
def test_a_step_that_overruns_sheds_the_edges_that_went_by(step_s: float, shed: int) -> None:
    world = World()
    [lease] = world.go_live()
    world.run_ticks(1)
    edge_s = world.loop._edges.due_s
    world.run_until(edge_s - 1e-6)
    counted = _count("engine_ticks_shed_total")
    world.stepper.step_s = step_s
    exchange = world.submit(lease)
    world.run_until(edge_s)
    world.stepper.step_s = 0.010
    assert exchange.result is not None
    assert exchange.result.shed == shed
    assert _count("engine_ticks_shed_total") == counted + shed
    following = world.exchange(lease)
    assert following.shed == 0
    assert following.tick == exchange.result.tick + shed + 1


def test_a_permanently_slow_engine_keeps_its_delay_bounded() -> None:
    world = World(step_s=0.130)
    conductor = Conductor(world, world.go_live())
    world.run_ticks(500)
    ticks = len(conductor.results)
    assert ticks + sum(result.shed for result in conductor.results) == pytest.approx(500, abs=3)
    assert all(result.next_tick_in_s <= 0.080 for result in conductor.results)


def test_edges_that_the_thread_slept_over_are_shed() -> None:
    world = World()
    [lease] = world.go_live()
    world.run_ticks(1)
    exchange = world.submit(lease)
    next_tick = world.loop._edges.number
    world.clock.advance_to(world.edge_s(next_tick + 3) + 0.010)
    world.run_until(world.clock.now)
    assert exchange.result is not None
    assert (exchange.result.tick, exchange.result.shed) == (next_tick + 3, 3)


def test_an_exchange_without_a_live_slot_is_answered_at_the_next_edge() -> None:
    world = World(prefill_s=0.5)
    lease = world.reserve()
    world.run_ticks(1)
    edge_s = world.loop._edges.due_s
    exchange = world.submit(lease, live=[False])
    world.run_until(edge_s + 0.001)
    assert exchange.result is not None
    assert edge_s <= world.answered[exchange] < edge_s + 1e-6
    assert exchange.result.outputs[0].status is SlotStatus.PREFILL
    assert world.stepper.steps == []


def test_two_media_processes_share_a_tick() -> None:
    world = World(slots=4)
    leases = world.go_live(4)
    one, other = Conductor(world, leases[:2]), Conductor(world, leases[2:], margin_s=lambda: 0.002)
    world.run_ticks(50)
    assert [result.tick for result in one.results] == [result.tick for result in other.results]
    assert len(one.results) >= 49


def test_withdrawn_exchanges_are_not_answered_and_their_frames_are_stepped() -> None:
    world = World()
    [lease] = world.go_live()
    exchange = world.submit(lease, value=123)
    world.loop.withdraw(exchange)
    world.loop.withdraw(exchange)
    world.run_ticks(1)
    assert exchange.result is None
    assert world.stepper.steps[-1][1][lease.slot, 0] == pytest.approx(123 / 32768)


def test_a_second_frame_before_the_tick_replaces_the_first() -> None:
    world = World(slots=2)
    one, _ = world.go_live(2)
    world.run_ticks(1)
    first, second = world.submit(one, value=1), world.submit(one, value=2)
    world.run_ticks(1)
    assert first.result is not None and second.result is not None
    assert first.result.outputs[0].pcm is not None and first.result.outputs[0].pcm[0] == 2


# ---- prefill ---------------------------------------------------------------------------------------------------------


def test_prefill_never_makes_a_neighbour_miss_its_edge() -> None:
    """Two neighbours talk while prompts come and go; calls to `prefill` overrun their budget by up to 4 ms."""
    rng = random.Random(2)
    world = World(slots=4, prefill_s=0.400)
    world.stepper.step_s = lambda: rng.uniform(0.020, 0.045)
    conductor = Conductor(world, world.go_live(2))
    world.stepper.prefill_overrun_s = lambda: rng.uniform(0.0, 0.004)
    first = len(world.stepper.steps)
    done = 0
    for _ in range(20):
        leases = [world.reserve(), world.reserve()]
        for _ in range(60):
            result = world.exchange(*leases, live=[False, False])
            if all(output.status is SlotStatus.READY for output in result.outputs):
                done += 1
                break
        for lease in leases:
            world.loop.release(lease)
        world.run_ticks(1)
    assert done == 20
    assert sum(result.shed for result in conductor.results) == 0
    ticks = [result.tick for result in conductor.results]
    assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))
    for result, (began_s, _, _) in zip(conductor.results, world.stepper.steps[first:], strict=False):
        assert began_s <= world.edge_s(result.tick) + 1e-9


def test_prefill_does_not_delay_a_tick_whose_frames_are_early() -> None:
    world = World(slots=3, step_s=0.010, prefill_s=0.500)
    conductor = Conductor(world, world.go_live(1), margin_s=lambda: 0.040)
    world.run_ticks(5)
    first = len(world.stepper.steps)
    world.reserve()
    world.reserve()
    world.run_ticks(40)
    assert len(world.stepper.prefills) >= 20
    ticks = [result.tick for result in conductor.results][-30:]
    leads_s = [
        world.edge_s(tick) - began_s for tick, (began_s, _, _) in zip(ticks, world.stepper.steps[-30:], strict=True)
    ]
    assert len(world.stepper.steps) - first >= 30
    assert min(leads_s) > 0.034


def test_words_of_a_step_without_its_owner_come_with_the_next_exchange() -> None:
    world = World()
    [lease] = world.go_live()
    world.stepper.say[lease.slot] = [" one", " two", " three"]
    world.run_ticks(4)  # the owner is late: edges go by without its frame
    exchange = world.submit(lease)
    world.run_ticks(1)
    assert exchange.result is not None
    assert exchange.result.outputs[0].text == " one two three"


def test_unread_words_are_bounded_and_never_reach_the_next_owner() -> None:
    world = World()
    [lease] = world.go_live()
    world.stepper.say[lease.slot] = ["x" * 900] * 4
    world.run_ticks(3)
    exchange = world.submit(lease)
    world.run_ticks(1)
    assert exchange.result is not None
    assert len(exchange.result.outputs[0].text or "") <= 3000
    world.stepper.say[lease.slot] = [" secret"] * 5
    world.run_ticks(2)
    world.loop.release(lease)
    world.stepper.say.clear()
    world.run_ticks(1)
    [second] = world.go_live()
    assert second.slot == lease.slot
    assert world.exchange(second).outputs[0].text is None


def test_prefill_has_the_whole_period_while_nobody_is_live() -> None:
    world = World(prefill_s=0.400)
    lease = world.reserve()
    began_s = world.clock.now
    while world.exchange(lease, live=[False]).outputs[0].status is not SlotStatus.READY:
        pass
    assert world.clock.now - began_s <= 0.400 + 2 * 0.080
    assert sum(budget_s for _, _, budget_s in world.stepper.prefills) == pytest.approx(0.400, abs=0.081)


def test_prompts_share_the_spare_time() -> None:
    world = World(slots=3, prefill_s=0.240)
    leases = [world.reserve() for _ in range(3)]
    world.exchange(*leases, live=[False] * 3)
    world.run_ticks(4)
    asked = [slot for _, slot, _ in world.stepper.prefills]
    assert set(asked) == {0, 1, 2}


def test_no_prefill_where_the_step_leaves_no_time() -> None:
    world = World(slots=2, step_s=0.076)
    [lease] = world.go_live()
    conductor = Conductor(world, [lease], margin_s=lambda: 0.001)
    world.stepper.prefill_s = 0.1
    world.reserve()
    world.run_ticks(5)
    before = len(world.stepper.prefills)
    world.run_ticks(30)
    assert len(world.stepper.prefills) == before
    assert sum(result.shed for result in conductor.results) == 0


# ---- what breaks -----------------------------------------------------------------------------------------------------


def test_a_failed_slot_is_told_once_and_closed_and_its_neighbour_goes_on() -> None:
    world = World()
    one, other = world.go_live(2)
    world.stepper.fail_next = {one.slot}
    result = world.exchange(one, other)
    assert [output.status for output in result.outputs] == [SlotStatus.FAILED, SlotStatus.LIVE]
    assert result.outputs[0].pcm is None
    world.run_ticks(1)
    assert world.stepper.closed == [one.slot]
    assert [output.status for output in world.exchange(one, other).outputs] == [SlotStatus.REVOKED, SlotStatus.LIVE]
    assert world.reserve().slot == one.slot


def test_a_slot_whose_owner_was_not_there_when_it_failed_learns_it_later() -> None:
    world = World()
    [lease] = world.go_live()
    world.stepper.fail_next = {lease.slot}
    world.run_ticks(3)
    assert world.stepper.closed == [lease.slot]
    assert world.exchange(lease).outputs[0].status is SlotStatus.FAILED
    assert world.exchange(lease).outputs[0].status is SlotStatus.REVOKED


def test_audio_that_is_not_finite_fails_its_slot_alone() -> None:
    world = World()
    one, other = world.go_live(2)
    world.stepper.poison = {other.slot}
    statuses = [output.status for output in world.exchange(one, other).outputs]
    assert statuses == [SlotStatus.LIVE, SlotStatus.FAILED]


@pytest.mark.parametrize("method", ["open", "prefill"])
def test_a_prompt_that_raises_fails_its_slot_alone(method: str) -> None:
    world = World()
    [lease] = world.go_live()
    world.stepper.raise_in = {method}
    broken = world.reserve()
    world.run_ticks(1)
    world.stepper.raise_in = set()
    statuses = [output.status for output in world.exchange(lease, broken).outputs]
    assert statuses == [SlotStatus.LIVE, SlotStatus.FAILED]
    world.run_ticks(1)
    assert world.stepper.closed == [broken.slot]
    assert world.loop.capacity().in_use == 1


def test_one_step_that_raises_costs_one_frame_of_silence() -> None:
    world = World()
    [lease] = world.go_live()
    world.stepper.raise_in = {"step"}
    output = world.exchange(lease).outputs[0]
    assert output.status is SlotStatus.LIVE
    assert output.pcm is not None and not output.pcm.any()
    world.stepper.raise_in = set()
    output = world.exchange(lease, value=9).outputs[0]
    assert output.pcm is not None and output.pcm[0] == 9
    assert world.loop.capacity().ready


def test_two_steps_in_a_row_that_raise_fail_every_slot_that_was_live_and_no_other() -> None:
    world = World(slots=3)
    leases = world.go_live(3)
    world.exchange(*leases, live=[True, True, False])
    world.stepper.raise_in = {"step"}
    world.exchange(*leases, live=[True, True, False])
    result = world.exchange(*leases, live=[True, True, False])
    assert [output.status for output in result.outputs] == [SlotStatus.FAILED, SlotStatus.FAILED, SlotStatus.FROZEN]
    assert not world.loop.capacity().ready


def test_the_loop_ticks_for_new_sessions_after_a_broken_step() -> None:
    world = World()
    [lease] = world.go_live()
    world.stepper.raise_in = {"step"}
    for _ in range(3):
        world.exchange(lease)
    world.stepper.raise_in = set()
    world.go_live()
    assert world.loop.capacity().ready


def test_a_broken_engine_gets_another_chance_after_a_while() -> None:
    world = World()
    [lease] = world.go_live()
    world.stepper.raise_in = {"step"}
    for _ in range(3):
        world.exchange(lease)
    world.run_until(world.clock.now + 5)
    assert not world.loop.capacity().ready
    world.run_until(world.clock.now + 6)
    assert world.loop.capacity().ready


def test_output_of_another_shape_counts_as_a_step_that_raised() -> None:
    world = World()
    [lease] = world.go_live()
    world.stepper.slots = 5  # the length of its text and heard
    output = world.exchange(lease).outputs[0]
    assert output.pcm is not None and not output.pcm.any()


def test_a_close_that_raises_still_frees_the_slot() -> None:
    world = World(slots=1)
    [lease] = world.go_live()
    world.stepper.raise_in = {"close"}
    world.loop.release(lease)
    world.run_ticks(1)
    assert world.loop.capacity().in_use == 0
    world.reserve()


# ---- readiness, start and stop ---------------------------------------------------------------------------------------


def test_an_idle_engine_is_ready_while_it_turns() -> None:
    world = World()
    world.run_ticks(100)
    assert world.loop.capacity().ready
    world.clock.advance(1.5)
    assert not world.loop.capacity().ready
    world.run_ticks(1)
    assert world.loop.capacity().ready


def test_shutdown_closes_every_slot_and_answers_who_waits() -> None:
    world = World(slots=3)
    leases = world.go_live(2)
    exchange = world.submit(*leases)
    turn = world.loop.shutdown()
    assert turn.done == [exchange] and isinstance(exchange.error, EngineUnavailable)
    assert sorted(world.stepper.closed) == [0, 1]
    assert world.loop.capacity().in_use == 0
    with pytest.raises(EngineUnavailable):
        world.submit(*leases)
    with pytest.raises(EngineUnavailable):
        world.reserve()


@pytest.mark.parametrize("raises", [False, True])
def test_a_stepper_with_threads_of_its_own_is_shut_down_after_its_slots_are_closed(raises: bool) -> None:
    calls: list[object] = []

    class Threaded(ScriptedStepper):
        def shutdown(self) -> None:
            calls.append(self.open_slots)
            if raises:
                raise RuntimeError("shutdown was told to raise")

    clock = VirtualClock()
    loop = EngineLoop(Threaded(clock), clock=clock)
    loop.reserve(SessionPrompt())
    loop.poll()
    loop.shutdown()
    assert calls == [frozenset()]


@pytest.mark.parametrize(
    ("live", "pcm"),
    [
        ([True], np.zeros((1, FRAME_SAMPLES), np.int16)),
        ([True, True], np.zeros((2, 960), np.int16)),
        ([True, True], np.zeros((2, FRAME_SAMPLES), np.float32)),
        ([True, True], np.zeros(FRAME_SAMPLES, np.int16)),
    ],
)
def test_an_exchange_whose_lengths_do_not_fit_is_refused(live: list[bool], pcm: np.ndarray) -> None:
    world = World()
    leases = world.go_live(2)
    with pytest.raises(ValueError, match="do not fit together"):
        world.loop.submit(leases, live, 0, pcm)
    assert world.exchange(*leases).outputs[0].status is SlotStatus.LIVE


def test_an_exchange_without_leases_is_answered() -> None:
    world = World()
    assert world.exchange().outputs == ()


def test_run_ends_at_stop_and_hands_out_the_last_answers() -> None:
    """The one test here with a real thread and the real clock."""
    loop = EngineLoop(ScriptedStepper(VirtualClock(), step_s=0.0))
    turns: list[Turn] = []
    thread = threading.Thread(target=loop.run, args=(turns.append,))
    thread.start()
    loop.stop()
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert turns and turns[-1].done == []
