"""RFC 3261 section 17.2.1 and figure 7, RFC 6026 section 7.1, and the CANCEL of section 9.2."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.transaction.base import Failure, ServerTransaction, State
from tests.transports.sip.transaction.virtualtime import Agent, VirtualTime, flow, request

TCP = flow("tcp")


def test_an_invite_that_is_not_answered_at_once_gets_its_100_at_once(agent: Agent) -> None:
    agent.invited()
    assert agent.wire.times("100") == [0.0]


def test_an_invite_that_is_answered_at_once_gets_no_100(time: VirtualTime) -> None:
    agent = Agent(time, on_request=lambda transaction: _respond(transaction, 486))
    agent.invited()
    assert agent.wire.take() == ["486"]


def test_a_repeated_invite_gets_the_latest_response_and_no_second_call(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invited()
    for delay_s in (0.5, 1.0, 2.0):
        time.advance(delay_s)
        agent.receive(request())
    assert agent.wire.take() == ["100"] * 4
    transaction.respond(transaction.reply(180))
    agent.receive(request())
    assert agent.wire.take() == ["180", "180"]
    assert agent.servers == [transaction]


def test_over_udp_a_refusal_is_repeated_until_its_ack(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invited()
    transaction.respond(transaction.reply(486))
    time.advance(10)
    assert agent.wire.times("486") == [0.0, 0.5, 1.5, 3.5, 7.5]  # timer G
    agent.receive(request())
    assert agent.wire.times("486")[5:] == [10.0]
    agent.receive(_ack(transaction))
    assert transaction.state is State.CONFIRMED
    agent.receive(_ack(transaction))
    agent.receive(request())
    time.advance(4.9)
    assert len(agent.transactions) == 1
    time.advance(0.1)  # timer I
    assert len(agent.wire.times("486")) == 6
    assert not agent.acks
    agent.assert_nothing_left()


def test_a_refusal_without_ack_is_given_up_after_64_t1(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invited()
    told: list[Failure] = []
    transaction.on_failure = told.append
    transaction.respond(transaction.reply(486))
    time.advance(60)
    assert agent.wire.times("486") == [0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5]
    assert told == [Failure.TIMEOUT]  # timer H
    agent.assert_nothing_left()


def test_over_a_reliable_transport_a_refusal_is_sent_once_and_still_waits_for_its_ack(
    agent: Agent, time: VirtualTime
) -> None:
    transaction = agent.invited(way=TCP)
    transaction.respond(transaction.reply(486))
    time.advance(10)
    assert agent.wire.take() == ["100", "486"]
    agent.receive(_ack(transaction), TCP)
    agent.assert_nothing_left()


def test_a_2xx_is_repeated_by_the_user_and_repeated_invites_are_absorbed(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invited()
    agent.wire.take()
    ok = transaction.reply(200)
    assert transaction.respond(ok)
    assert transaction.state is State.ACCEPTED
    time.advance(0.5)
    agent.receive(request())
    assert agent.wire.take() == ["200"]
    assert transaction.respond(ok)
    assert agent.wire.take() == ["200"]
    assert not transaction.respond(transaction.reply(486))
    assert not transaction.respond(transaction.reply(180))
    time.advance(31.4)
    agent.receive(request())
    assert len(agent.servers) == 1
    time.advance(0.1)  # timer L
    assert agent.wire.take() == []
    assert not transaction.respond(ok)
    agent.assert_nothing_left()


def test_the_ack_to_a_2xx_reaches_the_core_with_a_branch_of_its_own_and_with_that_of_its_invite(agent: Agent) -> None:
    """It should have a new branch; there are phones whose has not."""
    transaction = agent.invited()
    transaction.respond(transaction.reply(200))
    for branch in ("z9hG4bK-1", "z9hG4bK-2"):
        agent.receive(request("ACK", branch=branch, to_tag=transaction.to_tag))
    assert len(agent.acks) == 2


def test_a_cancel_is_answered_and_the_invite_gets_487(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invited()
    transaction.respond(transaction.reply(180))
    told: list[Request] = []
    transaction.on_cancel = told.append
    agent.wire.take()
    agent.receive(request("CANCEL"))
    assert agent.wire.take() == ["200", "487"]
    assert [message.method for message in told] == ["CANCEL"]
    tags = {(message.headers.get("To") or "").partition("tag=")[2] for _, message, _ in agent.wire.sent[1:]}
    assert tags == {transaction.to_tag}
    agent.receive(request("CANCEL"))
    assert agent.wire.take() == ["200"]
    agent.receive(_ack(transaction))
    time.advance(5)
    agent.assert_nothing_left()


def test_a_cancel_before_any_response_is_answered_too(time: VirtualTime) -> None:
    agent = Agent(time)
    agent.invited()
    agent.receive(request("CANCEL"))
    assert agent.wire.take() == ["100", "200", "487"]


@pytest.mark.parametrize("status", [200, 486])
def test_a_cancel_comes_too_late_for_an_invite_that_has_been_answered(agent: Agent, status: int) -> None:
    transaction = agent.invited()
    transaction.respond(transaction.reply(status))
    transaction.on_cancel = lambda message: pytest.fail("it is too late")
    agent.wire.take()
    agent.receive(request("CANCEL"))
    cancelled = agent.wire.last("200")
    assert agent.wire.take() == ["200"]
    assert cancelled.headers.get("CSeq") == "1 CANCEL"
    assert (cancelled.headers.get("To") or "").endswith(transaction.to_tag)


def test_the_user_may_answer_a_cancelled_invite_in_its_own_way(agent: Agent) -> None:
    transaction = agent.invited()

    def refuse(message: Request) -> None:
        response = transaction.reply(487)
        response.headers.add("Reason", "SIP;cause=200")
        transaction.respond(response)

    transaction.on_cancel = refuse
    agent.receive(request("CANCEL"))
    assert agent.wire.take() == ["100", "200", "487"]
    assert agent.wire.last("487").headers.get("Reason") == "SIP;cause=200"


@pytest.mark.parametrize(
    "stray",
    [request("CANCEL", branch="z9hG4bK-other"), request("CANCEL", via="SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bK-1")],
)
def test_a_cancel_of_nothing_gets_481(agent: Agent, stray: Request) -> None:
    transaction = agent.invited()
    agent.wire.take()
    agent.receive(stray)
    assert agent.wire.take() == ["481"]
    assert transaction.state is State.PROCEEDING


def test_a_cancel_from_another_host_does_nothing(agent: Agent) -> None:
    transaction = agent.invited()
    agent.wire.take()
    agent.receive(request("CANCEL"), flow(remote=("203.0.113.66", 5062)))
    assert agent.wire.take() == ["481"]
    assert transaction.state is State.PROCEEDING


def test_a_challenge_to_a_stranger_leaves_nothing_and_is_the_same_each_time(time: VirtualTime) -> None:
    agent = Agent(time, on_request=lambda transaction: transaction.respond_once(transaction.reply(401)))
    agent.receive(request())
    agent.assert_nothing_left()
    agent.receive(request())
    assert agent.wire.take() == ["401", "401"]
    first, second = (message for _, message, _ in agent.wire.sent)
    assert first.headers.get("To") == second.headers.get("To")
    agent.receive(request("ACK", to_tag="whatever"))
    assert len(agent.acks) == 1  # which no dialog knows
    agent.assert_nothing_left()


def test_an_invite_that_is_dropped_gets_no_answer(time: VirtualTime) -> None:
    agent = Agent(time, on_request=lambda transaction: transaction.drop())
    agent.receive(request())
    assert agent.wire.take() == []
    agent.assert_nothing_left()


def test_a_broken_connection_is_told_and_ends_a_ringing_invite(agent: Agent) -> None:
    transaction = agent.invited(way=TCP)
    told: list[Failure] = []
    transaction.on_failure = told.append
    agent.transactions.on_transport_error(TCP)
    assert told == [Failure.TRANSPORT]
    assert not transaction.respond(transaction.reply(200))
    agent.assert_nothing_left()


def test_a_2xx_that_cannot_be_sent_is_told_and_still_absorbs_repeated_invites(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invited()
    told: list[Failure] = []
    transaction.on_failure = told.append
    agent.wire.broken = True
    transaction.respond(transaction.reply(200))
    time.advance(0)
    assert told == [Failure.TRANSPORT]
    agent.wire.broken = False
    agent.receive(request())
    assert agent.servers == [transaction]


def _respond(transaction: ServerTransaction, status: int) -> None:
    transaction.respond(transaction.reply(status))


def _ack(transaction: ServerTransaction) -> Request:
    return request("ACK", to_tag=transaction.to_tag)
