"""A user agent with real transactions, dialogs, negotiation and sessions, in virtual time, with a network, ports, legs
and an engine that are fakes."""

from __future__ import annotations

import asyncio
import ipaddress
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rtc_server.engine.client import Live
from rtc_server.events import Numbered
from rtc_server.transports.sip.call.call import Call
from rtc_server.transports.sip.call.surroundings import CallSettings, Port
from rtc_server.transports.sip.flow import Address, Flow
from rtc_server.transports.sip.message.message import SipParseError
from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia, LocalMedia
from rtc_server.transports.sip.negotiation.sdp import MediaSection, read_description
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.trunk.gatekeeper import Gatekeeper
from rtc_server.transports.sip.trunk.numbers import NumberRule
from rtc_server.transports.sip.trunk.patterns import Pattern
from rtc_server.transports.sip.trunk.trunks import Trunk, Trunks
from rtc_server.transports.sip.trunk.webhook import Accept, IncomingCall, Reject
from rtc_server.transports.sip.useragent import UserAgent
from tests.session.conftest import House
from tests.session.fakes import FakeEngine, FakeLeg
from tests.transports.sip.call.phone import FLOW, THEM, US, Phone
from tests.transports.sip.transaction.virtualtime import VirtualTime

TRUNK = Trunk(
    "carrier",
    networks=(ipaddress.ip_network("198.51.100.0/24"),),
    target=Target("udp", "198.51.100.7", 5060),
    username="user",
    password="secret",
    caller_id="+15550199",
    dialable=(Pattern("+1555*"),),
    header_names=("X-Customer",),
    trusted=True,
    numbers=(NumberRule(Pattern("*"), voice="alto"),),
)


class VirtualClock:
    """What sessions read, and their tests wind on."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time

    @property
    def now(self) -> float:
        return self._time.now_s

    def __call__(self) -> float:
        return self._time.now_s


@dataclass
class FakePort:
    local: LocalMedia
    closed: int = 0

    def close(self) -> None:
        self.closed += 1


class FakeCallLeg(FakeLeg):
    kind = "sip"

    def __init__(
        self, clock: Any, port: Port, on_event: Callable[[Numbered], None], on_close: Callable[[str], None]
    ) -> None:
        super().__init__(clock)
        self.port = port
        self.live = Live.NO
        self.agreements: list[AgreedMedia] = []
        self.digits: list[str] = []
        self.held = False
        self.fails_on_agree = False
        self.peer_host: str | None = None
        self._on_event = on_event
        self._on_close = on_close

    @property
    def agreed(self) -> AgreedMedia:
        return self.agreements[-1]

    def agree(self, agreed: AgreedMedia, peer_host: str | None = None) -> None:
        if self.fails_on_agree:
            raise RuntimeError("a defect of ours")
        self.agreements.append(agreed)
        self.peer_host = peer_host
        self.expects_audio = agreed.expects_audio and not self.held

    def hold(self, held: bool) -> None:
        self.held = held
        self.expects_audio = self.agreed.expects_audio and not held

    def answer(self) -> None:
        self.live = Live.YES

    def send_digits(self, digits: str) -> None:
        self.digits.append(digits)

    def keep_alive(self) -> None:
        self.last_sign_of_life_s = self.clock()

    def send_event(self, numbered: Numbered) -> None:
        super().send_event(numbered)
        self._on_event(numbered)

    async def close(self, reason: str) -> None:
        if not self.closed:
            self.closed.append(reason)
            self.port.close()
            self._on_close(reason)


class FakeMedia:
    def __init__(self, clock: Any, limit: int = 100) -> None:
        self.ports: list[FakePort] = []
        self.legs: list[FakeCallLeg] = []
        self.error: Exception | None = None
        self._clock = clock
        self._limit = limit

    def acquire(self, own_host: str, told_host: str) -> FakePort:
        if self.error is not None:
            raise self.error
        number = 40_000 + 2 * len(self.ports)
        self.ports.append(FakePort(LocalMedia(told_host, number, number + 1)))
        return self.ports[-1]

    def leg(self, port: Port, on_event: Callable[[Numbered], None], on_close: Callable[[str], None]) -> FakeCallLeg:
        self.legs.append(FakeCallLeg(self._clock, port, on_event, on_close))
        return self.legs[-1]

    @property
    def open_ports(self) -> int:
        return sum(not port.closed for port in self.ports)


class FakeNetwork:
    def __init__(
        self,
        on_message: Callable[[bytes, Flow], None],
        on_closed: Callable[[Flow], None],
        on_unreadable: Callable[[SipParseError, Flow], None],
    ) -> None:
        self.deliver = on_message
        self.held: list[Flow] = []
        self.break_flow = on_closed
        self.sent: list[tuple[bytes, Flow]] = []
        self.phones: list[Phone] = []
        self.connected: list[Target] = []
        self.lose: Callable[[bytes], bool] = lambda datagram: False
        self.error: OSError | None = None
        """Raised for what is sent."""
        self.unreachable = False
        self.addresses: dict[str, str] = {}
        """Of names; of others the name stands for the address."""
        self.closed = False

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        self.closed = True

    def send(self, data: bytes, flow: Flow) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append((data, flow))
        if self.lose(data):
            return
        for phone in self.phones:
            if phone.flow == flow:
                phone.receive(data)

    async def connect(self, target: Target) -> Flow:
        self.connected.append(target)
        if self.unreachable:
            raise ConnectionRefusedError
        return Flow(target.transport, US, (self.addresses.get(target.host.lower(), target.host), target.port or 5060))

    def hold(self, flow: Flow) -> None:
        self.held.append(flow)

    def release(self, flow: Flow) -> None:
        self.held.remove(flow)

    def sent_by(self, flow: Flow) -> str:
        return "192.0.2.10:5060"

    def contact(self, flow: Flow) -> Address:
        return US


@dataclass
class FakeWebhook:
    decision: Accept | Reject = field(default_factory=Accept)
    asked: list[IncomingCall] = field(default_factory=list)
    waits: asyncio.Event | None = None
    cancelled: bool = False
    on_failure: Accept | None = None
    unusable: list[tuple[str, str]] = field(default_factory=list)

    async def decide(self, call: IncomingCall) -> Accept | Reject:
        self.asked.append(call)
        if self.waits is not None:
            try:
                await self.waits.wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        return self.decision

    def undecided(self, call_id: str, cause: str) -> Accept | Reject:
        self.unusable.append((call_id, cause))
        return self.on_failure if isinstance(self.on_failure, Accept) else Reject(480, cause)

    async def close(self) -> None:
        pass


class World:
    """Nothing happens in it by itself: `settle` runs what is ready, `advance` lets time go by, `tick` steps the
    engine."""

    def __init__(
        self,
        *,
        slots: int = 4,
        trunks: Sequence[Trunk] = (TRUNK,),
        settings: CallSettings | None = None,
        webhook: FakeWebhook | None = None,
    ) -> None:
        self.time = VirtualTime()
        clock: Any = VirtualClock(self.time)
        self.house = House(clock=clock, engine=FakeEngine(slots=slots))
        self.media = FakeMedia(clock)
        self.agent = UserAgent(
            self._open_network,
            Trunks(trunks),
            Gatekeeper(Trunks(trunks), secret=b"s" * 32, clock=clock),
            self.house.admission,
            self.media,
            webhook=webhook,  # type: ignore[arg-type]
            settings=settings or CallSettings(goodbye_s=0.0),
            clock=clock,
            timers=self.time.timers,
            source=random.Random(1),
        )

    def _open_network(
        self,
        on_message: Callable[[bytes, Flow], None],
        on_closed: Callable[[Flow], None],
        on_unreadable: Callable[[SipParseError, Flow], None],
    ) -> FakeNetwork:
        self.network = FakeNetwork(on_message, on_closed, on_unreadable)
        return self.network

    def phone(self, flow: Flow = FLOW, contact: str | None = None) -> Phone:
        """The one at the other end of this flow, from now on."""
        phone = Phone(self.network.deliver, flow, contact)
        self.network.phones = [other for other in self.network.phones if other.flow != flow] + [phone]
        return phone

    async def settle(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)

    async def tick(self, count: int = 1) -> None:
        """Steps of the engine, in no time."""
        for _ in range(count):
            await self.house.conductor.tick()
            await self.settle()

    async def advance(self, seconds: float, step_s: float = 0.0) -> None:
        """Let time go by, timer by timer."""
        end_s = self.time.now_s + seconds
        while (next_s := self.time.timers.next_s) is not None and next_s <= end_s:
            self.time.advance_to(next_s)
            await self.settle()
        self.time.advance_to(end_s)
        await self.settle()

    async def ringing(self, phone: Phone | None = None, body: str | None = None, headers: str = "") -> Phone:
        phone = phone or self.phone()
        phone.invite(body, headers)
        await self.settle()
        return phone

    async def answered(self, phone: Phone | None = None, body: str | None = None, headers: str = "") -> Phone:
        """A call in which both ends speak."""
        phone = await self.ringing(phone, body, headers)
        await self.tick(2)
        assert phone.last.status == 200, phone.received
        phone.ack()
        await self.settle()
        phone.new()
        return phone

    @property
    def call(self) -> Call:
        """The only one."""
        (call,) = self.agent.calls
        return call

    @property
    def leg(self) -> FakeCallLeg:
        return self.media.legs[-1]

    async def assert_nothing_left(self) -> None:
        """After the time that transactions and memories take: no call, session, slot, port, timer or task."""
        await self.settle()
        await self.advance(130)
        assert list(self.agent.calls) == []
        assert self.agent.calls.dialogs == 0
        assert self.network.held == []
        assert len(self.house.registry) == 0
        assert self.house.engine.leases == []
        assert self.media.open_ports == 0
        assert len(self.agent._transactions) == 0
        assert len(self.agent._tasks) == 0
        assert len(self.time.timers) == 0


def audio_of(body: bytes) -> MediaSection:
    (section,) = [section for section in read_description(body) if section.kind == "audio"]
    return section


async def events_of(call: Call) -> list[dict[str, Any]]:
    """What an application has been told that subscribes now: the states so far."""
    subscription = call.feed.subscribe()
    events = list(subscription._waiting)
    subscription.close()
    return events


__all__ = ["FLOW", "THEM", "US", "Phone", "World", "audio_of", "events_of"]
