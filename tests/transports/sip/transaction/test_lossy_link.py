"""Two layers, one at each end of a link that loses messages: every call is set up and taken down all the same."""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import pytest

from rtc_server.transports.sip.call.answeredinvite import AnsweredInvite
from rtc_server.transports.sip.flow import Address, Flow, Transport
from rtc_server.transports.sip.message.message import Request, Response, parse
from rtc_server.transports.sip.transaction.base import Failure, ServerTransaction
from rtc_server.transports.sip.transaction.layer import Transactions
from rtc_server.transports.sip.transaction.timers import Intervals
from tests.transports.sip.transaction.virtualtime import OURS, THEIRS, VirtualTime, flow, name_of, request

CALLS = 200
LATENCY_S = 0.03


class Link:
    """Carries each message to the other end, or loses it."""

    def __init__(self, time: VirtualTime, loss: float) -> None:
        self.ends: dict[Address, Transactions] = {}
        self.sent: Counter[str] = Counter()
        self._time = time
        self._loss = loss
        self._random = Random(20)

    def send(self, data: bytes, way: Flow) -> None:
        message = parse(data)
        self.sent[name_of(message)] += 1
        if self._random.random() >= self._loss:
            arrives = Flow(way.transport, way.remote, way.local)
            self._time.timers.after(LATENCY_S, partial(self.ends[way.remote].receive, message, arrives))


class Callee:
    """Rings for a second, then answers every other call and refuses the others; takes note of each BYE."""

    def __init__(self, time: VirtualTime, link: Link) -> None:
        self.seen: Counter[tuple[str | None, str]] = Counter()
        self.lost_acks = 0
        self._time = time
        self._waiting: dict[str | None, AnsweredInvite] = {}
        self.transactions = link.ends[OURS] = Transactions(link.send, time.timers, self._on_request, self._on_ack)

    def _on_request(self, transaction: ServerTransaction, message: Request) -> None:
        call_id = message.headers.get("Call-ID")
        self.seen[call_id, message.method] += 1
        if message.method == "INVITE":
            transaction.respond(transaction.reply(180))
            self._time.timers.after(1.0, partial(self._decide, transaction, call_id or ""))
        else:
            transaction.respond(transaction.reply(200))

    def _decide(self, transaction: ServerTransaction, call_id: str) -> None:
        answer = transaction.reply(486 if _is_refused(call_id) else 200)
        if answer.status == 200:
            self._waiting[call_id] = AnsweredInvite(
                transaction, answer, self._time.timers, Intervals(), lambda ack: None, self._on_lost
            )
        else:
            transaction.respond(answer)

    def _on_ack(self, ack: Request, way: Flow) -> None:
        self._waiting[ack.headers.get("Call-ID")].acknowledged(ack)

    def _on_lost(self) -> None:
        self.lost_acks += 1


class Caller:
    """Acknowledges each 2xx, and says BYE three seconds after the first one."""

    def __init__(self, time: VirtualTime, link: Link, way: Flow) -> None:
        self.finals: Counter[tuple[str, int]] = Counter()
        self.goodbyes: Counter[int] = Counter()
        self.failures: list[Failure] = []
        self._time = time
        self._way = way
        self.transactions = link.ends[THEIRS] = Transactions(
            link.send, time.timers, lambda transaction, message: None, lambda ack, way: None
        )

    def call(self, call_id: str) -> None:
        self.transactions.invite(
            request(call_id=call_id), self._way, partial(self._on_response, call_id), self.failures.append
        )

    def _on_response(self, call_id: str, response: Response) -> None:
        if response.status < 200:
            return
        self.finals[call_id, response.status] += 1
        if response.status == 200:
            self.transactions.send_ack(request("ACK", call_id=call_id, to_tag="callee"), self._way)
            if self.finals[call_id, 200] == 1:
                self._time.timers.after(3.0, partial(self._say_bye, call_id))

    def _say_bye(self, call_id: str) -> None:
        bye = request("BYE", call_id=call_id, cseq=2, to_tag="callee")
        self.transactions.request(bye, self._way, self._on_goodbye, self.failures.append)

    def _on_goodbye(self, response: Response) -> None:
        self.goodbyes[response.status] += 1


def _is_refused(call_id: str) -> bool:
    return int(call_id) % 2 == 1


def _make_calls(transport: Transport, loss: float) -> tuple[Caller, Callee, Link]:
    time = VirtualTime()
    link = Link(time, loss)
    callee = Callee(time, link)
    caller = Caller(time, link, flow(transport, local=THEIRS, remote=OURS))
    for number in range(CALLS):
        time.timers.after(0.1 * number, partial(caller.call, str(number)))
    time.advance(120)
    assert not caller.failures
    assert callee.lost_acks == 0
    assert caller.goodbyes == {200: CALLS // 2}
    assert {call_id for call_id, status in caller.finals if status == 486} == set(map(str, range(1, CALLS, 2)))
    assert {call_id for call_id, status in caller.finals if status == 200} == set(map(str, range(0, CALLS, 2)))
    assert set(callee.seen.values()) == {1}
    assert len(caller.transactions) + len(callee.transactions) + len(time.timers) == 0
    return caller, callee, link


def test_with_a_fifth_of_all_messages_lost_each_way_every_call_succeeds() -> None:
    caller, _, link = _make_calls("udp", loss=0.2)
    assert link.sent["INVITE"] > 1.1 * CALLS
    assert link.sent["BYE"] > 1.1 * CALLS / 2
    assert link.sent["200"] > 1.1 * CALLS
    assert all(count == 1 for (_, status), count in caller.finals.items() if status == 486)


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_where_nothing_is_lost_nothing_is_sent_twice(transport: Transport) -> None:
    _, _, link = _make_calls(transport, loss=0.0)
    half, whole = CALLS // 2, CALLS
    assert link.sent == {"INVITE": whole, "180": whole, "486": half, "200": 2 * half, "ACK": whole, "BYE": half}
