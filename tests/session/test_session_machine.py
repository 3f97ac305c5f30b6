"""Whatever callers, network and engine do in whatever order: every session ends, and gives back what it had, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rtc_server.engine.client import Lease, SlotStatus
from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import EngineFull, SessionNotFound, TooManyResumes
from rtc_server.session.session import Session, State
from tests.session.conftest import House
from tests.session.fakes import FakeEngine, FakeLeg

Result = TypeVar("Result")

SLOTS = 3
LONGEST_SILENCE_S = 50.0
"""30 s without a sign of life, 15 s for a leg that is being set up, and a little."""


class CountingEngine(FakeEngine):
    """Counts what comes back, and which slot was stepped how often."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.released: Counter[Lease] = Counter()
        self.text = " word"

    async def release(self, lease: Lease) -> None:
        self.released[lease] += 1
        await super().release(lease)


class SessionLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.engine = CountingEngine(slots=SLOTS)
        self.house = House(engine=self.engine)
        self.sessions: list[Session] = []
        self.legs: list[tuple[Session, FakeLeg]] = []

    # ---- callers -----------------------------------------------------------------------------------------------------

    @rule(has_events=st.booleans(), json=st.booleans(), ticks=st.none() | st.integers(0, 4))
    def call(self, has_events: bool, json: bool, ticks: int | None) -> None:
        """`ticks`: how many go by once the call is connected; None: it is not connected yet."""
        try:
            session = self._run(self.house.admission.admit(SessionPrompt()))
        except EngineFull:
            return
        self.sessions.append(session)
        if json:
            session.give_token()
        self._add_leg(session, has_events, connected=ticks is not None)
        self._tick(ticks or 0)

    @precondition(lambda self: self._open_sessions())
    @rule(data=st.data(), last_event=st.none() | st.integers(0, 500), connected=st.booleans())
    def come_back(self, data: st.DataObject, last_event: int | None, connected: bool) -> None:
        session = data.draw(st.sampled_from(self._open_sessions()))
        try:
            found = self.house.admission.resume(session.token.secret)
        except (SessionNotFound, TooManyResumes):
            return
        assert found is session and session.state is not State.CLOSED
        self._add_leg(session, has_events=True, last_event=last_event, connected=connected)

    @precondition(lambda self: self._open_legs())
    @rule(data=st.data(), what=st.sampled_from(["connect", "end", "end", "alive", "say close", "say cancel"]))
    def leg_does(self, data: st.DataObject, what: str) -> None:
        leg = data.draw(st.sampled_from(self._open_legs()))
        deeds: dict[str, Callable[[], None]] = {
            "connect": leg.connect,
            "end": leg.end,
            "alive": leg.alive,
            "say close": lambda: leg.say('{"type":"close"}'),
            "say cancel": lambda: leg.say('{"type":"response.cancel","id":"1"}'),
        }
        self._do(deeds[what])

    @precondition(lambda self: self._open_sessions())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        session = data.draw(st.sampled_from(self._open_sessions()))
        self._do(lambda: session.close("client_closed"))

    # ---- time, engine, server ----------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 60))
    def tick(self, count: int) -> None:
        self._tick(count)

    @rule(gap_s=st.floats(0.1, 20.0))
    def silence(self, gap_s: float) -> None:
        self.house.clock.now += gap_s
        self._run(self.house.tick())
        self._settle()

    @rule(status=st.sampled_from([SlotStatus.FAILED, *[SlotStatus.FROZEN, SlotStatus.PREFILL] * 2]))
    def engine_says(self, status: SlotStatus) -> None:
        self.engine.status = status
        self._run(self.house.tick())
        self.engine.status = None
        self._settle()

    @rule(ready=st.sampled_from([True, True, False]))
    def prefill(self, ready: bool) -> None:
        self.engine.ready_slots = ready

    # ---- laws --------------------------------------------------------------------------------------------------------

    @invariant()
    def open_sessions_hold_their_lease_and_closed_ones_none(self) -> None:
        for session in self.sessions:
            assert (session.lease in self.engine.leases) == (session.state is not State.CLOSED)
            assert self.engine.released[session.lease] == (session.state is State.CLOSED)

    @invariant()
    def a_live_session_has_a_leg(self) -> None:
        for session in self.sessions:
            assert session.state is not State.LIVE or session.leg is not None

    @invariant()
    def no_leg_ends_twice(self) -> None:
        assert all(len(leg.closed) + len(leg.ended) <= 1 for _, leg in self.legs)

    @invariant()
    def at_most_two_legs_of_a_session_are_open(self) -> None:
        open_legs = Counter(session.id for session, leg in self.legs if not leg.closed and not leg.ended)
        assert all(count <= 2 for count in open_legs.values())

    def teardown(self) -> None:
        # Legs have deadlines of their own for connecting.
        for session, leg in self.legs:
            connecting = session.state is State.CONNECTING or session.leg is not leg
            if session.state is not State.CLOSED and not leg.closed and not leg.ended and connecting:
                self._do(lambda leg=leg: leg.end("ice_failed"))  # type: ignore[misc]
        until_s = self.house.clock.now + LONGEST_SILENCE_S
        while self.house.clock.now < until_s:
            self._run(self.house.tick())
            self.house.clock.now += 0.9
        self._settle()
        assert all(session.state is State.CLOSED for session in self.sessions)
        assert self.engine.leases == [] and len(self.house.registry) == 0
        assert all(self.engine.released[session.lease] == 1 for session in self.sessions)
        assert all(len(leg.closed) + len(leg.ended) == 1 for _, leg in self.legs)
        for session in self.sessions:
            types = [event.type for owner, leg in self.legs if owner is session for event in leg.events]
            assert types.count("response.created") <= 1 or "session.resumed" in types
            assert types.count("response.done") <= 1
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _tick(self, count: int) -> None:
        """Everybody who is connected talks meanwhile."""
        for _ in range(count):
            for leg in self._open_legs():
                leg.alive()
            live = [session for session in self.sessions if session.state is State.LIVE]
            away = [(session, session.frames) for session in self._open_sessions() if session.leg is None]
            self._run(self.house.tick())
            assert all(session.state is State.LIVE for session in live)
            assert all(session.frames == frames for session, frames in away)
        self._settle()

    def _add_leg(
        self, session: Session, has_events: bool, last_event: int | None = None, connected: bool = False
    ) -> None:
        leg = FakeLeg(self.house.clock)
        leg.has_events = has_events
        self.legs.append((session, leg))
        self._do(lambda: self.house.add_leg(session, leg, last_event, connected))

    def _open_sessions(self) -> list[Session]:
        return [session for session in self.sessions if session.state is not State.CLOSED]

    def _open_legs(self) -> list[FakeLeg]:
        return [leg for _, leg in reversed(self.legs) if not leg.closed and not leg.ended]

    def _do(self, deed: Callable[[], object]) -> None:
        """On the loop, like everything that a transport or a request does; then let the tasks end that it began."""

        async def do() -> None:
            deed()

        self._run(do())
        self._settle()

    def _settle(self) -> None:
        async def settle() -> None:
            for session in self.sessions:
                await session.wait_closed()
            for _ in range(3):
                await asyncio.sleep(0)

        self._run(settle())

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(coroutine)


TestSessionLife = SessionLife.TestCase
TestSessionLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
