"""Any order of calls, from owners old and new, leaves slots and leases right."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from rtc_server.engine.client import Lease, SlotStatus
from rtc_server.engine.slots import LEASE_TTL_S
from rtc_server.engine.stepper import FRAME_SAMPLES
from rtc_server.engine.tick import Exchange
from rtc_server.errors import EngineFull
from tests.engine.fakes import World

SLOTS = 3
GONE = (SlotStatus.FAILED, SlotStatus.REVOKED)


@dataclass
class _Sent:
    exchange: Exchange
    held: frozenset[Lease]
    """Those that surely held when it was sent."""


class SlotsAndLeases(RuleBasedStateMachine):
    """The stepper asserts that its own calls come in a legal order; the machine asserts what owners see."""

    leases = Bundle("leases")
    old_leases = Bundle("old_leases")

    def __init__(self) -> None:
        super().__init__()
        self.world = World(slots=SLOTS, prefill_s=0.030, step_s=0.020)
        self.held: dict[Lease, float] = {}
        """Leases that surely hold, and when they were last used."""
        self.said: defaultdict[Lease, set[int]] = defaultdict(lambda: {0})
        """What each owner ever said, as the value of all samples of a frame; 0 is silence."""
        self.sent: list[_Sent] = []
        self.last_value = 0

    @rule(target=leases)
    def reserve(self) -> object:
        try:
            lease = self.world.reserve()
        except EngineFull:
            assert self.world.loop.capacity().in_use == SLOTS
            return multiple()
        assert lease.slot not in {other.slot for other in self.held}
        self.held[lease] = self.world.clock.now
        return lease

    @rule(target=old_leases, lease=consumes(leases))
    def release(self, lease: Lease) -> Lease:
        self.world.loop.release(lease)
        self.held.pop(lease, None)
        return lease

    @rule(lease=old_leases)
    def release_again(self, lease: Lease) -> None:
        self.world.loop.release(lease)

    @rule(named=st.lists(st.tuples(st.one_of(leases, old_leases), st.booleans()), max_size=4))
    def exchange(self, named: list[tuple[Lease, bool]]) -> None:
        pcm = np.zeros((len(named), FRAME_SAMPLES), np.int16)
        for row, (lease, _) in enumerate(named):
            self.last_value += 1
            pcm[row] = self.last_value
            self.said[lease].add(self.last_value)
        exchange = self.world.loop.submit([lease for lease, _ in named], [live for _, live in named], 0, pcm)
        self.sent.append(_Sent(exchange, frozenset(self.held)))
        for lease, _ in named:
            if lease in self.held:
                self.held[lease] = self.world.clock.now

    @rule(seconds=st.sampled_from([0.001, 0.030, 0.079, 0.080, 0.2, 1.0, LEASE_TTL_S + 0.2]))
    def run(self, seconds: float) -> None:
        self.world.run_until(self.world.clock.now + seconds)

    @rule(lease=leases, after_s=st.sampled_from([0.001, 0.015, 0.060, 0.085]))
    def release_while_running(self, lease: Lease, after_s: float) -> None:
        """As from another thread: in the middle of a step or a prefill, if one runs by then."""
        self.held.pop(lease, None)
        self.world.clock.at(self.world.clock.now + after_s, lambda: self.world.loop.release(lease))
        self.world.run_ticks(2)

    @rule(slot=st.integers(0, SLOTS - 1))
    def break_slot(self, slot: int) -> None:
        self.held = {lease: used_s for lease, used_s in self.held.items() if lease.slot != slot}
        self.world.stepper.fail_next.add(slot)
        self.world.run_ticks(1)
        self.world.stepper.fail_next.clear()

    @rule(method=st.sampled_from(["open", "prefill", "step", "close"]))
    def raise_for_two_ticks(self, method: str) -> None:
        self.held.clear()
        self.world.stepper.raise_in = {method}
        self.world.run_ticks(2)
        self.world.stepper.raise_in = set()

    @invariant()
    def answers_are_right(self) -> None:
        for sent in [sent for sent in self.sent if sent.exchange.result is not None]:
            self.sent.remove(sent)
            result = sent.exchange.result
            assert result is not None
            for lease, output in zip(sent.exchange.leases, result.outputs, strict=True):
                if lease in self.held and lease in sent.held:
                    assert output.status not in GONE
                assert (output.pcm is not None) == (output.status is SlotStatus.LIVE)
                if output.pcm is not None:
                    assert set(np.unique(output.pcm)) <= self.said[lease], "an owner heard somebody else"

    @invariant()
    def slots_are_counted(self) -> None:
        now = self.world.clock.now
        self.held = {lease: used_s for lease, used_s in self.held.items() if now - used_s < LEASE_TTL_S}
        assert len(self.held) <= self.world.loop.capacity().in_use <= SLOTS

    def teardown(self) -> None:
        """Once everybody has gone, everybody has an answer, every slot is free and the stepper holds nothing."""
        self.world.run_until(self.world.clock.now + LEASE_TTL_S + 0.5)
        assert self.world.loop.capacity().in_use == 0
        assert all(sent.exchange.result is not None for sent in self.sent)
        assert self.world.stepper.open_slots == frozenset()


TestSlotsAndLeases = SlotsAndLeases.TestCase
TestSlotsAndLeases.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
