from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rtc_server.engine.stepper import SessionPrompt
from rtc_server.session.admission import Admission
from rtc_server.session.conductor import Conductor
from rtc_server.session.liveness import LivenessRules
from rtc_server.session.registry import SessionRegistry
from rtc_server.session.session import Session
from tests.session.fakes import FakeClock, FakeEngine, FakeLeg, FakePacer

RULES = LivenessRules(setup_s=15)


@dataclass
class House:
    """Sessions with a fake world around them; `tick` lets 80 ms go by."""

    clock: FakeClock = field(default_factory=FakeClock)
    engine: FakeEngine = field(default_factory=FakeEngine)
    pacer: FakePacer = field(default_factory=FakePacer)
    rules: LivenessRules = RULES

    def __post_init__(self) -> None:
        self.conductor = Conductor(self.engine, self.pacer, self.clock)
        self.registry = SessionRegistry(self.conductor)
        self.admission = Admission(self.engine, self.registry, self.rules, clock=self.clock)

    async def call(self, leg: FakeLeg | None = None, connected: bool = True) -> tuple[Session, FakeLeg]:
        session = await self.admission.admit(SessionPrompt())
        return session, self.add_leg(session, leg, connected=connected)

    def add_leg(
        self,
        session: Session,
        leg: FakeLeg | None = None,
        last_event: int | None = None,
        connected: bool = True,
    ) -> FakeLeg:
        """What a transport does for one offer."""
        leg = leg or FakeLeg(self.clock)
        leg.handler = session.expect_leg(last_event)
        leg.handler.attach(leg)
        if connected:
            leg.connect()
        return leg

    @property
    def stepped_frames(self) -> int:
        """How often the engine stepped anything."""
        return sum(sum(live) for _, live, _ in self.engine.exchanges)

    async def live_call(self, leg: FakeLeg | None = None) -> tuple[Session, FakeLeg]:
        session, leg = await self.call(leg)
        await self.tick(2)
        return session, leg

    async def tick(self, count: int = 1, alive: FakeLeg | None = None) -> None:
        for _ in range(count):
            await self.conductor.tick()
            self.clock.now += 0.08
            if alive is not None:
                alive.alive()


@pytest.fixture
def house() -> House:
    return House()
