"""RFC 3261 sections 17.1.2 and 17.2.2 with figures 6 and 8, and RFC 4320."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.transaction.base import Failure, State
from tests.transports.sip.transaction.virtualtime import Agent, VirtualTime, flow, request

TCP = flow("tcp")


def test_over_udp_a_request_is_repeated_up_to_every_t2_and_fails_after_64_t1(agent: Agent, time: VirtualTime) -> None:
    agent.ask("BYE")
    time.advance(60)
    assert agent.wire.times("BYE") == [0, 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5]  # timer E
    assert agent.failures == [(32.0, Failure.TIMEOUT)]  # timer F
    agent.assert_nothing_left()


def test_after_a_provisional_response_it_is_repeated_every_t2(agent: Agent, time: VirtualTime) -> None:
    agent.ask("BYE")
    time.advance(0.2)
    agent.answer(100, to="BYE")
    time.advance(60)
    assert agent.wire.times("BYE") == [0, 0.5, 4.5, 8.5, 12.5, 16.5, 20.5, 24.5, 28.5]
    assert agent.failures == [(32.0, Failure.TIMEOUT)]
    agent.assert_nothing_left()


def test_over_a_reliable_transport_it_is_sent_once(agent: Agent, time: VirtualTime) -> None:
    agent.ask("BYE", TCP)
    time.advance(60)
    assert agent.wire.times("BYE") == [0.0]
    assert agent.failures == [(32.0, Failure.TIMEOUT)]
    agent.assert_nothing_left()


@pytest.mark.parametrize("status", [200, 302, 481, 503, 603])
def test_the_final_response_is_told_once_and_its_repetitions_are_absorbed(
    agent: Agent, time: VirtualTime, status: int
) -> None:
    agent.ask()
    agent.answer(status, to="OPTIONS")
    agent.answer(status, to="OPTIONS")
    agent.answer(100, to="OPTIONS")
    time.advance(4.9)
    assert len(agent.transactions) == 1  # timer K
    time.advance(0.1)
    assert agent.responses == [status]
    assert agent.wire.times("OPTIONS") == [0.0]
    assert not agent.failures
    agent.assert_nothing_left()


def test_over_a_reliable_transport_nothing_is_left_after_the_final_response(agent: Agent) -> None:
    agent.ask(way=TCP)
    agent.answer(200, to="OPTIONS")
    agent.assert_nothing_left()


def test_a_broken_flow_fails_a_request_that_waits(agent: Agent) -> None:
    agent.ask(way=TCP)
    agent.transactions.on_transport_error(TCP)
    assert agent.failures == [(0.0, Failure.TRANSPORT)]
    agent.assert_nothing_left()


def test_a_request_that_has_had_its_answer_does_not_fail(agent: Agent) -> None:
    agent.ask()
    agent.answer(200, to="OPTIONS")
    agent.transactions.on_transport_error(flow())
    assert not agent.failures
    agent.assert_nothing_left()


def test_a_repeated_request_gets_the_latest_response_again(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.asked()
    agent.receive(request("OPTIONS"))
    assert agent.wire.take() == []  # there is none yet
    transaction.respond(transaction.reply(200))
    agent.receive(request("OPTIONS"))
    time.advance(31.9)
    agent.receive(request("OPTIONS"))
    assert agent.wire.take() == ["200", "200", "200"]
    assert len(agent.servers) == 1
    time.advance(0.1)  # timer J
    agent.assert_nothing_left()


def test_over_a_reliable_transport_an_answered_request_is_forgotten(agent: Agent) -> None:
    transaction = agent.asked(way=TCP)
    assert transaction.respond(transaction.reply(200))
    agent.assert_nothing_left()


def test_only_one_final_response_goes_out(agent: Agent) -> None:
    transaction = agent.asked()
    assert transaction.respond(transaction.reply(200))
    assert not transaction.respond(transaction.reply(500))
    assert not transaction.respond(transaction.reply(100))
    assert agent.wire.take() == ["200"]


@pytest.mark.parametrize("way", [flow(), TCP])
def test_a_user_that_takes_long_is_covered_by_a_100_after_three_and_a_half_seconds(
    agent: Agent, time: VirtualTime, way: object
) -> None:
    """RFC 4320 section 4.1: when timer E of the client has come to T2."""
    transaction = agent.asked(way=TCP if way is TCP else flow())
    time.advance(20)
    assert agent.wire.times("100") == [3.5]
    assert transaction.state is State.PROCEEDING
    assert transaction.respond(transaction.reply(200))
    assert agent.wire.take() == ["100", "200"]


def test_a_request_that_is_never_answered_is_given_up_with_its_client(agent: Agent, time: VirtualTime) -> None:
    """RFC 4320 section 4.2: no 408, for nobody waits for it."""
    transaction = agent.asked()
    told: list[Failure] = []
    transaction.on_failure = told.append
    time.advance(40)
    assert told == [Failure.TIMEOUT]
    assert agent.wire.take() == ["100"]
    assert not transaction.respond(transaction.reply(200))
    agent.assert_nothing_left()


def test_a_response_that_cannot_be_sent_is_told(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.asked()
    told: list[Failure] = []
    transaction.on_failure = told.append
    agent.wire.broken = True
    transaction.respond(transaction.reply(200))
    assert not told
    time.advance(0)
    assert told == [Failure.TRANSPORT]
    agent.assert_nothing_left()
