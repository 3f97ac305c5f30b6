"""What the layer does with messages that belong to nothing, with too many of them, and with broken flows."""

from __future__ import annotations

import pytest

from rtc_server import metrics
from rtc_server.errors import TransactionsFull
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request, SipParseError, parse
from rtc_server.transports.sip.transaction.base import Failure, ServerTransaction
from rtc_server.transports.sip.transaction.layer import Transactions
from tests.counted import Counted
from tests.transports.sip.transaction.virtualtime import Agent, VirtualTime, flow, name_of, request, response

TCP = flow("tcp")


# ---- requests that are no new ones -----------------------------------------------------------------------------------


def test_a_request_that_comes_on_a_second_way_is_refused_while_the_first_one_is_known(
    agent: Agent, time: VirtualTime
) -> None:
    """RFC 3261 section 8.2.2.2. Its repetitions are refused too, and leave nothing."""
    first = agent.invited()
    agent.wire.take()
    for _ in range(2):
        agent.receive(request(branch="z9hG4bK-2"))
    assert agent.wire.take() == ["482", "482"]
    assert agent.servers == [first]
    first.respond(first.reply(486))
    agent.receive(request("ACK", to_tag=first.to_tag))
    time.advance(5)
    agent.receive(request(branch="z9hG4bK-2"))
    assert len(agent.servers) == 2


def test_requests_of_one_dialog_are_never_merged(agent: Agent) -> None:
    for branch in ("z9hG4bK-1", "z9hG4bK-2"):
        agent.receive(request("INFO", branch=branch, to_tag="callee"))
    assert len(agent.servers) == 2


def test_an_ack_that_belongs_to_nothing_is_the_cores(agent: Agent) -> None:
    agent.receive(request("ACK", to_tag="callee"))
    assert len(agent.acks) == 1
    assert agent.wire.take() == []
    agent.assert_nothing_left()


def test_an_ack_that_comes_before_any_response_does_nothing(agent: Agent) -> None:
    agent.invited()
    agent.receive(request("ACK"))
    assert not agent.acks
    assert len(agent.transactions) == 1


# ---- malformed messages ----------------------------------------------------------------------------------------------


def test_a_request_with_a_malformed_header_gets_400_and_leaves_nothing(agent: Agent) -> None:
    agent.receive(request(cseq_method="BYE"))
    assert agent.wire.take() == ["400"]
    agent.assert_nothing_left()


@pytest.mark.parametrize("name", ["Via", "To"])
def test_a_request_that_no_answer_can_be_made_for_is_dropped(agent: Agent, name: str) -> None:
    dropped = Counted(metrics.DATAGRAMS_DROPPED)
    message = request()
    message.headers.remove(name)
    agent.receive(message)
    assert agent.wire.take() == []
    assert dropped["sip_malformed"] == 1
    agent.assert_nothing_left()


def test_whom_nobody_is_to_answer_gets_not_a_byte_and_is_counted(time: VirtualTime) -> None:
    dropped = Counted(metrics.DATAGRAMS_DROPPED)
    sent: list[bytes] = []
    transactions = Transactions(
        lambda data, way: sent.append(data),
        time.timers,
        lambda transaction, message: pytest.fail("it is malformed"),
        lambda ack, way: None,
        allow_refusal=lambda way: False,
    )
    transactions.receive(request(cseq_method="BYE"), flow())
    transactions.receive(request("CANCEL"), flow())
    assert not sent and dropped["sip_unanswered"] == 2


def test_a_malformed_ack_has_no_answer(agent: Agent) -> None:
    agent.receive(request("ACK", cseq_method="BYE"))
    assert agent.wire.take() == []
    assert not agent.acks


def test_what_could_be_read_only_in_part_is_refused_with_its_status(agent: Agent) -> None:
    data = request().to_bytes().replace(b"SIP/2.0\r\nVia", b"SIP/3.0\r\nVia")
    with pytest.raises(SipParseError) as caught:
        parse(data)
    assert caught.value.partial is not None
    agent.transactions.refuse(caught.value.partial, flow(), caught.value.status)
    assert agent.wire.take() == ["505"]
    agent.assert_nothing_left()


def test_a_stray_or_malformed_response_is_dropped(agent: Agent) -> None:
    dropped = Counted(metrics.DATAGRAMS_DROPPED)
    agent.ask()
    stray = response(request(branch="z9hG4bK-of-another"), 200)
    agent.receive(stray)
    stray.headers.remove("Via")
    agent.receive(stray)
    assert dropped["sip_stray"] == 2
    assert not agent.responses


# ---- our messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "start"),
    [
        (flow(), "SIP/2.0/UDP 192.0.2.10:5060;rport;branch=z9hG4bK"),
        (flow("tls"), "SIP/2.0/TLS 192.0.2.10:5060;rport;branch=z9hG4bK"),
        (Flow("tcp", ("2001:db8::1", 5060), ("2001:db8::2", 5060)), "SIP/2.0/TCP [2001:db8::1]:5060;rport;branch="),
    ],
)
def test_a_request_of_ours_says_how_it_goes_and_where_from(agent: Agent, way: Flow, start: str) -> None:
    agent.ask(way=way)
    sent = agent.wire.last("OPTIONS")
    assert len(sent.headers.all("Via")) == 1
    assert sent.headers.all("Via")[0].startswith(start)


def test_the_via_names_the_address_that_others_can_reach(time: VirtualTime) -> None:
    sent: list[bytes] = []
    transactions = Transactions(
        lambda data, way: sent.append(data),
        time.timers,
        lambda transaction, message: None,
        lambda ack, way: None,
        sent_by=lambda way: "203.0.113.50:5060",
    )
    transactions.request(request("OPTIONS"), flow(), lambda answer: None, lambda failure: None)
    assert parse(sent[0]).headers.all("Via")[0].startswith("SIP/2.0/UDP 203.0.113.50:5060;")


def test_branches_and_tags_are_different_in_each_layer(time: VirtualTime) -> None:
    tags: set[str] = set()
    for _ in range(5):
        transactions = Transactions(
            lambda data, way: None,
            time.timers,
            lambda transaction, message: tags.add(transaction.to_tag),
            lambda ack, way: None,
        )
        transactions.receive(request(), flow())
        transactions.close()
    assert len(tags) == 5


def test_the_ack_to_a_2xx_has_a_branch_of_its_own_and_is_no_transaction(agent: Agent) -> None:
    invite = agent.invite()
    agent.answer(200)
    data = agent.transactions.send_ack(request("ACK", to_tag="callee"), flow())
    ack = agent.wire.last("ACK")
    assert ack.headers.all("Via") != invite.request.headers.all("Via")
    assert parse(data) == ack
    assert len(agent.transactions) == 1


def test_what_belongs_to_no_transaction_and_cannot_be_sent_is_lost(agent: Agent) -> None:
    agent.wire.broken = True
    agent.transactions.send_ack(request("ACK", to_tag="callee"), flow())
    agent.receive(request("CANCEL"))
    assert agent.wire.take() == []
    agent.assert_nothing_left()


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_at_the_limit_a_new_request_takes_the_place_of_the_oldest_that_has_been_answered(time: VirtualTime) -> None:
    agent = Agent(time, limit=3)
    for number in range(3):
        agent.receive(_of_call(number))
    for number in (1, 0):
        agent.servers[number].respond(agent.servers[number].reply(486))
    agent.receive(_of_call(3))
    assert agent.servers[1].over
    assert not agent.servers[0].over
    assert len(agent.servers) == 4
    assert len(agent.transactions) == 3


def test_where_all_wait_for_their_answer_a_new_request_gets_503(time: VirtualTime) -> None:
    agent = Agent(time, limit=2)
    for number in range(4):
        agent.receive(_of_call(number))
    assert len(agent.servers) == 2
    assert agent.wire.take() == ["100", "100", "503", "503"]
    assert agent.wire.last("503").headers.get("Retry-After") == "5"
    agent.servers[0].respond(agent.servers[0].reply(200))  # it must be repeated, and its INVITE kept apart
    agent.receive(_of_call(4))
    assert len(agent.servers) == 2


def test_of_ours_only_what_ends_something_is_sent_at_the_limit(time: VirtualTime) -> None:
    agent = Agent(time, limit=1)
    invite = agent.invite()
    with pytest.raises(TransactionsFull):
        agent.ask()
    with pytest.raises(TransactionsFull):
        agent.invite()
    agent.answer(180)
    invite.cancel()
    agent.ask("BYE")
    assert agent.wire.take() == ["INVITE", "CANCEL", "BYE"]


def test_requests_of_others_and_ours_do_not_take_room_from_each_other(time: VirtualTime) -> None:
    agent = Agent(time, limit=1)
    agent.invited()
    agent.ask()
    assert len(agent.transactions) == 2


# ---- defects of users, broken flows ----------------------------------------------------------------------------------


def test_a_user_that_fails_gets_its_request_answered_with_500(time: VirtualTime) -> None:
    def fail(transaction: ServerTransaction) -> None:
        raise RuntimeError("a defect")

    agent = Agent(time, on_request=fail)
    agent.receive(request())
    agent.receive(request("OPTIONS", branch="z9hG4bK-2", cseq=2))
    assert agent.wire.take() == ["500", "500"]


def test_a_user_that_fails_on_a_cancel_still_has_its_invite_ended(agent: Agent) -> None:
    transaction = agent.invited()

    def fail(message: Request) -> None:
        raise RuntimeError("a defect")

    transaction.on_cancel = fail
    agent.receive(request("CANCEL"))
    assert agent.wire.take() == ["100", "200", "487"]


def test_a_user_that_fails_on_a_response_does_not_stop_the_layer(agent: Agent, time: VirtualTime) -> None:
    def fail(message: object) -> None:
        raise RuntimeError("a defect")

    agent.transactions.request(request("INFO"), flow(), fail, fail)
    agent.answer(200, to="INFO")
    agent.ask()
    agent.answer(200, to="OPTIONS")
    assert agent.responses == [200]
    time.advance(5)
    agent.assert_nothing_left()


def test_a_broken_flow_fails_all_of_its_transactions_and_none_of_another(agent: Agent) -> None:
    def fail(failure: Failure) -> None:
        raise RuntimeError("a defect")

    agent.transactions.request(request("INFO"), TCP, lambda message: None, fail)
    agent.ask(way=TCP)
    agent.ask("INFO", way=flow("tcp", remote=("198.51.100.9", 5060)))
    agent.transactions.on_transport_error(TCP)
    assert agent.failures == [(0.0, Failure.TRANSPORT)]
    assert len(agent.transactions) == 1


def test_a_broken_flow_that_nobody_uses_is_nothing(agent: Agent) -> None:
    agent.transactions.on_transport_error(TCP)
    agent.assert_nothing_left()


def test_closing_forgets_everything_without_a_word(agent: Agent, time: VirtualTime) -> None:
    agent.invite()
    agent.ask()
    agent.invited()
    agent.wire.take()
    agent.transactions.close()
    agent.transactions.close()
    agent.assert_nothing_left()
    time.advance(60)
    assert agent.wire.take() == []
    assert not agent.failures


def test_a_user_may_answer_end_and_start_transactions_from_within_its_callbacks(time: VirtualTime) -> None:
    agent = Agent(time)

    def react(transaction: ServerTransaction) -> None:
        agent.ask()
        transaction.respond(transaction.reply(200))
        agent.transactions.close()

    agent._react = react
    agent.receive(request("BYE"))
    assert [name_of(message) for _, message, _ in agent.wire.sent] == ["OPTIONS", "200"]
    agent.assert_nothing_left()


def _of_call(number: int) -> Request:
    return request(branch=f"z9hG4bK-{number}", call_id=f"call-{number}")
