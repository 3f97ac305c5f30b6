"""RFC 3261 section 13.3.1.4: what the user of an INVITE's server does about its 2xx."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.call.answeredinvite import AnsweredInvite
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.transaction.timers import Intervals
from tests.transports.sip.transaction.virtualtime import Agent, VirtualTime, flow, request


class Call:
    """As much of a call as has to do with its ACK."""

    def __init__(self, agent: Agent, time: VirtualTime, transport: str = "udp") -> None:
        self.transaction = agent.invited(way=flow("tcp") if transport == "tcp" else flow())
        self.acks: list[Request] = []
        self.lost_at_s: list[float] = []
        self.answered = AnsweredInvite(
            self.transaction,
            self.transaction.reply(200),
            time.timers,
            Intervals(),
            self.acks.append,
            lambda: self.lost_at_s.append(time.now_s),
        )


def ack(cseq: int = 1) -> Request:
    return request("ACK", cseq=cseq, to_tag="callee")


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_2xx_is_repeated_until_its_ack(agent: Agent, time: VirtualTime, transport: str) -> None:
    call = Call(agent, time, transport)
    time.advance(4)
    call.answered.acknowledged(ack())
    assert not call.answered.waiting
    time.advance(60)
    assert agent.wire.times("200") == [0.0, 0.5, 1.5, 3.5]
    assert len(call.acks) == 1 and not call.lost_at_s
    agent.assert_nothing_left()


def test_an_ack_counts_once_and_only_if_it_is_of_this_invite(agent: Agent, time: VirtualTime) -> None:
    call = Call(agent, time)
    call.answered.acknowledged(ack(cseq=2))
    assert call.answered.waiting and not call.acks
    for _ in range(2):
        call.answered.acknowledged(ack())
    assert len(call.acks) == 1


def test_an_ack_that_never_arrives_ends_the_call_after_64_t1(agent: Agent, time: VirtualTime) -> None:
    call = Call(agent, time)
    assert call.answered.waiting
    time.advance(100)
    assert agent.wire.times("200") == [0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5]
    assert call.lost_at_s == [32.0]
    call.answered.acknowledged(ack())
    assert not call.answered.waiting and not call.acks
    agent.assert_nothing_left()


def test_a_bye_stops_the_repetition(agent: Agent, time: VirtualTime) -> None:
    call = Call(agent, time)
    time.advance(2)
    agent.receive(request("BYE", branch="z9hG4bK-2", cseq=2, to_tag="callee"))
    agent.servers[-1].respond(agent.servers[-1].reply(200))
    call.answered.stop()
    call.answered.stop()
    before = len(agent.wire.times("200"))
    time.advance(60)
    assert len(agent.wire.times("200")) == before
    assert not call.lost_at_s
    agent.assert_nothing_left()


def test_it_may_be_stopped_from_within_a_repetition(agent: Agent, time: VirtualTime) -> None:
    """As where the connection is gone, so that the 2xx cannot leave and the call ends."""
    call = Call(agent, time)
    call.transaction.on_failure = lambda failure: call.answered.stop()
    agent.wire.broken = True
    time.advance(0.5)
    assert not call.answered.waiting
    time.advance(60)
    assert agent.wire.times("200") == [0.0]
    assert not call.lost_at_s
    agent.assert_nothing_left()
