"""RFC 3261 section 17.1.1 and figure 5, RFC 6026 section 7.2, and the CANCEL of section 9.1."""

from __future__ import annotations

import pytest

from rtc_server import metrics
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.transaction.base import Failure, State
from tests.counted import Counted
from tests.transports.sip.transaction.virtualtime import Agent, VirtualTime, flow, request

TCP = flow("tcp")


def test_over_udp_the_invite_is_repeated_at_doubling_intervals_and_fails_after_64_t1(
    agent: Agent, time: VirtualTime
) -> None:
    agent.invite()
    time.advance(60)
    assert agent.wire.times("INVITE") == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]  # timer A
    assert agent.failures == [(32.0, Failure.TIMEOUT)]  # timer B
    agent.assert_nothing_left()


def test_over_a_reliable_transport_the_invite_is_sent_once(agent: Agent, time: VirtualTime) -> None:
    agent.invite(TCP)
    time.advance(60)
    assert agent.wire.times("INVITE") == [0.0]
    assert agent.failures == [(32.0, Failure.TIMEOUT)]
    agent.assert_nothing_left()


def test_a_provisional_response_stops_repetition_and_timeout(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invite()
    time.advance(0.6)
    agent.answer(100)
    agent.answer(180)
    time.advance(100)
    assert agent.wire.times("INVITE") == [0.0, 0.5]
    assert agent.responses == [100, 180]
    assert transaction.state is State.PROCEEDING
    assert not agent.failures


@pytest.mark.parametrize("status", [302, 404, 486, 503, 603])
def test_a_refusal_is_acknowledged_each_time_and_told_once(agent: Agent, time: VirtualTime, status: int) -> None:
    agent.invite()
    agent.answer(180)
    agent.answer(status)
    time.advance(0.5)
    agent.answer(status)
    agent.answer(200)  # nobody may change its mind
    agent.answer(180)
    assert agent.responses == [180, status]
    assert agent.wire.times("ACK") == [0.0, 0.5]
    time.advance(31.4)
    assert len(agent.transactions) == 1  # timer D
    time.advance(0.1)
    agent.assert_nothing_left()


def test_the_ack_to_a_refusal_belongs_to_the_transaction_of_its_invite(agent: Agent) -> None:
    transaction = agent.transactions.invite(_with_route(), flow(), lambda response: None, lambda failure: None)
    agent.answer(486, to_tag="busy-tag")
    ack = agent.wire.last("ACK")
    invite = transaction.request
    assert isinstance(ack, Request)
    assert ack.uri == invite.uri
    assert ack.headers.all("Via") == invite.headers.all("Via")
    assert ack.headers.get("From") == invite.headers.get("From")
    assert (ack.headers.get("To") or "").endswith(";tag=busy-tag")
    assert ack.headers.get("Call-ID") == invite.headers.get("Call-ID")
    assert ack.headers.get("CSeq") == "1 ACK"
    assert ack.headers.all("Route") == invite.headers.all("Route")
    assert len(ack.headers.all("Route")) == 2
    assert ack.body == b""


def _with_route() -> Request:
    return request(extra="Route: <sip:one.example.com;lr>\r\nRoute: <sip:two.example.com;lr>\r\n")


def test_over_a_reliable_transport_nothing_is_left_after_a_refusal(agent: Agent) -> None:
    agent.invite(TCP)
    agent.answer(486)
    assert agent.wire.take() == ["INVITE", "ACK"]
    agent.assert_nothing_left()


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_every_2xx_reaches_the_user_for_64_t1_and_is_not_acknowledged_here(
    agent: Agent, time: VirtualTime, transport: str
) -> None:
    """Repetitions, and the 2xx of other branches of a forked INVITE: each wants an ACK of the user's."""
    dropped = Counted(metrics.DATAGRAMS_DROPPED)
    transaction = agent.invite(TCP if transport == "tcp" else flow())
    agent.answer(200, to_tag="one")
    assert transaction.state is State.ACCEPTED
    time.advance(1)
    agent.answer(200, to_tag="one")
    agent.answer(200, to_tag="two")
    agent.answer(486)  # of a third branch: it comes too late to matter
    agent.answer(180)
    assert agent.responses == [200, 200, 200]
    time.advance(30.9)
    assert transaction.state is State.ACCEPTED
    time.advance(0.1)  # timer M
    agent.answer(200, to_tag="one")
    assert agent.responses == [200, 200, 200]
    assert agent.wire.take() == ["INVITE"]
    assert dropped["sip_stray"] == 1
    agent.assert_nothing_left()


def test_a_cancel_waits_for_a_provisional_response(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invite()
    transaction.cancel()
    assert agent.wire.take() == ["INVITE"]
    time.advance(0.5)
    agent.answer(100)
    assert agent.wire.take() == ["INVITE", "CANCEL"]
    agent.answer(200, to="CANCEL")
    agent.answer(487)
    assert agent.responses == [100, 487]
    time.advance(40)
    agent.assert_nothing_left()


def test_a_cancel_has_the_branch_of_its_invite_and_the_to_without_tag(agent: Agent) -> None:
    transaction = agent.transactions.invite(_with_route(), flow(), lambda response: None, lambda failure: None)
    agent.answer(180)
    transaction.cancel('SIP;cause=200;text="Call completed elsewhere"')
    cancel = agent.wire.last("CANCEL")
    invite = transaction.request
    assert isinstance(cancel, Request)
    assert cancel.uri == invite.uri
    for name in ("Via", "From", "To", "Call-ID", "Route"):
        assert cancel.headers.all(name) == invite.headers.all(name)
    assert cancel.headers.get("CSeq") == "1 CANCEL"
    assert cancel.headers.get("Reason") == 'SIP;cause=200;text="Call completed elsewhere"'


def test_a_2xx_may_win_against_a_cancel(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invite()
    agent.answer(180)
    transaction.cancel()
    agent.answer(200)
    agent.answer(200, to="CANCEL")
    assert agent.responses == [180, 200]  # the user acknowledges it and says BYE
    time.advance(33)
    assert not agent.failures
    agent.assert_nothing_left()


def test_a_cancel_is_sent_once_and_never_after_a_final_response(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invite()
    agent.answer(180)
    transaction.cancel()
    transaction.cancel()
    agent.answer(200, to="CANCEL")
    agent.answer(487)
    transaction.cancel()
    assert agent.wire.times("CANCEL") == [0.0]
    refused = agent.invite()
    agent.answer(486)
    refused.cancel()
    assert agent.wire.times("CANCEL") == [0.0]


def test_an_invite_whose_cancel_changes_nothing_ends_after_64_t1(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invite(TCP)
    agent.answer(180)
    time.advance(5)
    transaction.cancel()
    agent.answer(200, to="CANCEL")
    time.advance(20)
    agent.answer(180)  # a sign of life is no answer
    time.advance(20)
    assert agent.failures == [(37.0, Failure.TIMEOUT)]
    agent.assert_nothing_left()


def test_what_rings_without_a_sign_of_life_is_cancelled(agent: Agent, time: VirtualTime) -> None:
    agent.invite(TCP)
    agent.answer(180)
    time.advance(170)
    agent.answer(183)
    time.advance(20)
    agent.answer(100)  # only says that the next hop lives
    time.advance(159)
    assert not agent.wire.times("CANCEL")
    time.advance(1)
    assert agent.wire.times("CANCEL") == [350.0]  # timer C
    time.advance(40)
    assert agent.failures == [(382.0, Failure.TIMEOUT)]
    agent.assert_nothing_left()


@pytest.mark.parametrize("answers", [[], [180]])
def test_a_broken_flow_fails_the_invite_once(agent: Agent, time: VirtualTime, answers: list[int]) -> None:
    agent.invite(TCP)
    for status in answers:
        agent.answer(status)
    agent.transactions.on_transport_error(TCP)
    agent.transactions.on_transport_error(TCP)
    assert agent.failures == [(0.0, Failure.TRANSPORT)]
    agent.assert_nothing_left()


def test_a_broken_flow_does_not_take_an_accepted_invite_away(agent: Agent, time: VirtualTime) -> None:
    """The ACK was lost with the connection, and the 2xx comes again on a new one."""
    agent.invite(TCP)
    agent.answer(200)
    agent.transactions.on_transport_error(TCP)
    agent.answer(200)
    assert agent.responses == [200, 200]
    time.advance(32)
    assert not agent.failures
    agent.assert_nothing_left()


def test_an_invite_that_cannot_be_sent_fails_after_the_call_that_sends_it(agent: Agent, time: VirtualTime) -> None:
    agent.wire.broken = True
    transaction = agent.invite()
    assert not transaction.over
    time.advance(0)
    assert agent.failures == [(0.0, Failure.TRANSPORT)]
    agent.assert_nothing_left()


def test_a_dropped_invite_says_nothing_more(agent: Agent, time: VirtualTime) -> None:
    transaction = agent.invite()
    transaction.drop()
    agent.answer(486)
    time.advance(60)
    assert agent.wire.take() == ["INVITE"]
    assert not agent.responses
    assert not agent.failures
    agent.assert_nothing_left()
