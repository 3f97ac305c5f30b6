"""Whatever two users, the network and the clock do in whatever order: each request has one outcome, reaches the other
core once, and is forgotten in time."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rtc_server.transports.sip.call.answeredinvite import AnsweredInvite
from rtc_server.transports.sip.flow import Flow, Transport
from rtc_server.transports.sip.message.message import Request, Response, parse
from rtc_server.transports.sip.transaction import layer, timers
from rtc_server.transports.sip.transaction.base import ClientTransaction, Failure, ServerTransaction, State
from rtc_server.transports.sip.transaction.invite_client import InviteClientTransaction
from rtc_server.transports.sip.transaction.invite_server import InviteServerTransaction
from rtc_server.transports.sip.transaction.layer import Transactions
from rtc_server.transports.sip.transaction.timers import Intervals
from tests.transports.sip.transaction.virtualtime import OURS, THEIRS, VirtualTime, request

Thing = TypeVar("Thing")

ADDRESSES = (OURS, THEIRS)
LIFETIME_S = 0.4
"""Of a datagram. It is less than what lies between a client's last repetition and the end of its server's memory; RFC
3261 does not promise more."""
RING_S = Intervals().invite_s
TIMEOUT_S = Intervals().timeout_s
LINGER_S = 5.0
TOLERANCE_S = 1e-6

SIDES = st.integers(0, 1)
TRANSPORTS = st.sampled_from(["udp", "udp", "tcp"])
STATUSES = st.sampled_from([100, 180, 200, 200, 302, 486, 503])
PICKS = st.integers(0, 5)
DELAYS_S = st.sampled_from([0.0, 0.1, 0.5, 1.5, 5.0, 33.0, 190.0])


@dataclass
class Asked:
    """A request, as its user sees it."""

    method: str
    transaction: ClientTransaction
    last_s: float
    """When it was sent, or something was heard."""
    finals: list[int] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


@dataclass
class Served:
    """A request, as the other end's user sees it."""

    transaction: ServerTransaction
    since_s: float
    """When it came, or its INVITE was answered."""
    may_come_again: bool = False
    """It was forgotten before its time: on purpose, or with its flow."""
    awaited: AnsweredInvite | None = None


@dataclass
class Datagram:
    data: bytes
    way: Flow
    sent_s: float


class Errors:
    """Stands for the loggers of the layer and the timers, which catch what a user raises."""

    def __init__(self) -> None:
        self.raised: list[str] = []
        self._patches = [mock.patch.object(module, "logger", self) for module in (layer, timers)]
        for patch in self._patches:
            patch.start()

    def exception(self, message: str) -> None:
        self.raised.append(traceback.format_exc())

    def stop(self) -> None:
        for patch in self._patches:
            patch.stop()


class TwoEnds(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.errors = Errors()
        self.time = VirtualTime()
        self.network: list[Datagram] = []
        self.broken: set[tuple[int, str]] = set()
        self.asked: dict[str, Asked] = {}
        self.served: dict[tuple[str, str], list[Served]] = {}
        self.said: dict[str, set[int]] = {}
        self.prompt: int | None = None
        self.ends = [self._end(side) for side in (0, 1)]

    def _end(self, side: int) -> Transactions:
        def send(data: bytes, way: Flow) -> None:
            if (side, way.transport) in self.broken:
                raise ConnectionResetError
            self.network.append(Datagram(data, way, self.time.now_s))

        return Transactions(send, self.time.timers, self._on_request, self._on_ack)

    # ---- users -------------------------------------------------------------------------------------------------------

    @rule(side=SIDES, transport=TRANSPORTS, arrives=st.booleans())
    def invite(self, side: int, transport: Transport, arrives: bool) -> None:
        self._ask("INVITE", side, transport)
        if arrives and self.network:
            self._deliver(self._take(0))

    @rule(method=st.sampled_from(["OPTIONS", "BYE"]), side=SIDES, transport=TRANSPORTS, arrives=st.booleans())
    def request(self, method: str, side: int, transport: Transport, arrives: bool) -> None:
        self._ask(method, side, transport)
        if arrives and self.network:
            self._deliver(self._take(0))

    def _ask(self, method: str, side: int, transport: Transport) -> None:
        call_id = f"call-{len(self.asked)}"
        way = Flow(transport, ADDRESSES[side], ADDRESSES[1 - side])
        message = request(method, call_id=call_id, to_tag=None if method == "INVITE" else "callee")
        end = self.ends[side]

        def on_response(response: Response) -> None:
            self._on_response(call_id, response)
            if method == "INVITE" and 200 <= response.status < 300:
                end.send_ack(request("ACK", call_id=call_id, to_tag="callee"), way)

        def on_failure(failure: Failure) -> None:
            self.asked[call_id].failures.append(failure)

        start: Callable[..., ClientTransaction] = end.invite if method == "INVITE" else end.request
        self.asked[call_id] = Asked(method, start(message, way, on_response, on_failure), self.time.now_s)

    @precondition(lambda self: self.served)
    @rule(pick=PICKS, status=STATUSES)
    def respond(self, pick: int, status: int) -> None:
        self._respond(self._recent(self._all_served(), pick), status)

    @precondition(lambda self: self.served)
    @rule(pick=PICKS, challenge=st.booleans())
    def forget(self, pick: int, challenge: bool) -> None:
        """With a challenge or without a word."""
        served = self._recent(self._all_served(), pick)
        if not challenge:
            served.transaction.drop()
        elif not served.transaction.answered:
            self._note(served, 401)
            served.transaction.respond_once(served.transaction.reply(401))
        served.may_come_again = True

    @precondition(lambda self: self.asked)
    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        transaction = self._recent(list(self.asked.values()), pick).transaction
        if isinstance(transaction, InviteClientTransaction):
            transaction.cancel()

    # ---- the network -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.network)
    @rule(pick=PICKS, times=st.integers(0, 2))
    def deliver(self, pick: int, times: int) -> None:
        """One message; not at all or twice, if it is a datagram."""
        datagram = self._take(pick)
        for _ in range(1 if datagram.way.reliable else times):
            self._deliver(datagram)

    @precondition(lambda self: self.network)
    @rule(times=st.integers(1, 2))
    def deliver_all(self, times: int) -> None:
        while self.network:
            datagram = self.network.pop(0)
            for _ in range(1 if datagram.way.reliable else times):
                self._deliver(datagram)

    @rule(deaf=st.none() | SIDES, steps=st.sampled_from([2, 20, 100, 340]), prompt=st.none() | STATUSES)
    def go_well(self, deaf: int | None, steps: int, prompt: int | None) -> None:
        """Everything arrives after a tenth of a second; or no datagram to one side does.

        `prompt`: how new requests are answered meanwhile.
        """
        self.broken.clear()
        self.prompt = prompt
        for _ in range(steps):
            self.time.advance(0.1)
            arriving, self.network = self.network, []
            for datagram in arriving:
                if datagram.way.reliable or deaf is None or datagram.way.remote != ADDRESSES[deaf]:
                    self._deliver(datagram)
        self.prompt = None

    @rule(delay_s=DELAYS_S)
    def go_badly(self, delay_s: float) -> None:
        """No datagram arrives."""
        self.time.advance(delay_s)
        self.broken.clear()
        oldest_s = self.time.now_s - LIFETIME_S
        self.network = [datagram for datagram in self.network if datagram.way.reliable or datagram.sent_s > oldest_s]

    @rule(side=SIDES, transport=TRANSPORTS, told=st.booleans())
    def break_flow(self, side: int, transport: Transport, told: bool) -> None:
        """One side can send nothing for a while, or the connection is lost and both are told."""
        if transport == "udp" or not told:
            self.broken.add((side, transport))
            return
        self.network = [datagram for datagram in self.network if not datagram.way.reliable]
        for end, local, remote in ((0, OURS, THEIRS), (1, THEIRS, OURS)):
            way = Flow("tcp", local, remote)
            for served in self._all_served():
                served.may_come_again |= served.transaction.way_out == way
            self.ends[end].on_transport_error(way)

    # ---- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def nothing_was_raised(self) -> None:
        assert not self.errors.raised, self.errors.raised[0]

    @invariant()
    def each_request_has_one_outcome_at_most(self) -> None:
        for call_id, asked in self.asked.items():
            assert len(asked.failures) <= 1
            assert not (asked.failures and asked.finals)
            accepted = asked.method == "INVITE" and asked.finals[:1] == [200]
            assert len(asked.finals) <= 1 or (accepted and set(asked.finals) == {200})
            assert set(asked.finals) <= self.said.get(call_id, set()) | {487}

    @invariant()
    def a_repeated_request_reaches_no_core(self) -> None:
        for times in self.served.values():
            assert all(served.may_come_again for served in times[:-1])

    @invariant()
    def everything_ends_in_time(self) -> None:
        now_s = self.time.now_s - TOLERANCE_S
        for asked in self.asked.values():
            longest_s = RING_S + 2 * TIMEOUT_S if asked.method == "INVITE" else TIMEOUT_S + LINGER_S
            assert asked.transaction.over or now_s <= asked.last_s + longest_s
        for served in self._all_served():
            transaction = served.transaction
            rings = transaction.request.method == "INVITE" and not transaction.answered
            longest_s = TIMEOUT_S + (LINGER_S if transaction.request.method == "INVITE" else TIMEOUT_S)
            assert transaction.over or rings or now_s <= served.since_s + longest_s

    @invariant()
    def what_is_over_leaves_nothing(self) -> None:
        busy = sum(len(end) for end in self.ends)
        waiting = sum(served.awaited is not None and served.awaited.waiting for served in self._all_served())
        if busy + waiting == 0:
            assert len(self.time.timers) == 0
            for end in self.ends:
                assert not (end._by_flow or end._merge_keys or end._answered)

    def teardown(self) -> None:
        for served in self._all_served():
            self._respond(served, 480)
        self.network.clear()
        self.time.advance(RING_S + 3 * TIMEOUT_S)
        self.errors.stop()
        self.nothing_was_raised()
        self.each_request_has_one_outcome_at_most()
        self.everything_ends_in_time()
        assert sum(len(end) for end in self.ends) == 0
        self.what_is_over_leaves_nothing()
        assert all(asked.finals or asked.failures for asked in self.asked.values())

    # ---- the users' parts that follow by themselves ------------------------------------------------------------------

    def _on_request(self, transaction: ServerTransaction, message: Request) -> None:
        served = Served(transaction, self.time.now_s)
        self.served.setdefault((message.headers.get("Call-ID") or "", message.method), []).append(served)

        def on_failure(failure: Failure) -> None:
            served.may_come_again |= failure is Failure.TRANSPORT

        def on_cancel(cancel: Request) -> None:
            served.since_s = self.time.now_s

        transaction.on_failure = on_failure
        if isinstance(transaction, InviteServerTransaction):
            transaction.on_cancel = on_cancel
        if self.prompt is not None:
            self._respond(served, self.prompt)

    def _on_ack(self, ack: Request, way: Flow) -> None:
        for served in self.served.get((ack.headers.get("Call-ID") or "", "INVITE"), ()):
            if served.awaited is not None:
                served.awaited.acknowledged(ack)

    def _on_response(self, call_id: str, response: Response) -> None:
        asked = self.asked[call_id]
        asked.last_s = self.time.now_s
        if response.status >= 200:
            asked.finals.append(response.status)

    def _respond(self, served: Served, status: int) -> None:
        transaction = served.transaction
        invited = transaction.request.method == "INVITE"
        if status == 180 and not invited:
            return
        answer = transaction.reply(status)
        if transaction.answered:
            again = transaction.state is State.ACCEPTED and status == 200
            assert transaction.respond(answer) == again
            return
        self._note(served, status)
        if invited and status == 200:
            served.awaited = AnsweredInvite(
                transaction, answer, self.time.timers, Intervals(), lambda ack: None, lambda: None
            )
        else:
            assert transaction.respond(answer)
        assert transaction.answered == (status >= 200)

    def _note(self, served: Served, status: int) -> None:
        self.said.setdefault(served.transaction.request.headers.get("Call-ID") or "", set()).add(status)
        if status >= 200:
            served.since_s = self.time.now_s

    # ---- the network's -----------------------------------------------------------------------------------------------

    def _take(self, pick: int) -> Datagram:
        """One that may arrive now: any on UDP, the first of its direction on a connection."""
        datagram = self._recent(self.network, pick)
        if datagram.way.reliable:
            datagram = next(other for other in self.network if other.way == datagram.way)
        self.network = [other for other in self.network if other is not datagram]
        return datagram

    def _deliver(self, datagram: Datagram) -> None:
        way = datagram.way
        self.ends[ADDRESSES.index(way.remote)].receive(parse(datagram.data), Flow(way.transport, way.remote, way.local))

    @staticmethod
    def _recent(things: list[Thing], pick: int) -> Thing:
        """Counted from the latest one."""
        return things[-1 - pick % len(things)]

    def _all_served(self) -> list[Served]:
        return [served for times in self.served.values() for served in times]


TestTwoEnds = TwoEnds.TestCase
TestTwoEnds.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
