from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

import pytest
from structlog.typing import EventDict

from rtc_server.transports.sip.flow import TRANSPORTS, Flow, Transport
from rtc_server.transports.sip.message import digest
from rtc_server.transports.sip.trunk import gatekeeper as gates
from rtc_server.transports.sip.trunk import sources
from rtc_server.transports.sip.trunk.gatekeeper import Challenge, Gatekeeper, Ignore, Known, Refuse
from rtc_server.transports.sip.trunk.trunks import Login, Trunk, Trunks
from tests.logs import captured_logs
from tests.transports.sip.trunk.requests import CARRIER_ADDRESS, STRANGER_ADDRESS, flow_from, request

CARRIER = Trunk("carrier", networks=(ipaddress.ip_network("192.0.2.0/24"),))
BRANCH = Trunk("branch", inbound=Login("branch", "open sesame"))
TRUNKS = Trunks([CARRIER, BRANCH])
STRANGER = flow_from(STRANGER_ADDRESS)
OTHER = flow_from("198.51.100.8")
METHODS = ["INVITE", "OPTIONS", "REGISTER", "MESSAGE", "SUBSCRIBE", "BYE", "ACK", "CANCEL", "FOO"]


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def gatekeeper(unknown: gates.UnknownPolicy = "challenge", clock: Clock | None = None) -> Gatekeeper:
    return Gatekeeper(TRUNKS, unknown=unknown, secret=b"0" * 32, clock=clock or Clock())


def authorization(challenges: Iterable[str], password: str, username: str = "branch", method: str = "INVITE") -> str:
    (challenge,) = digest.answerable(list(challenges)).values()
    value = digest.answer(challenge, method, "sip:agent@203.0.113.50", username, password)
    return f"Authorization: {value}"


def challenged(gate: Gatekeeper, flow: Flow = STRANGER) -> tuple[str, ...]:
    challenge = gate.identify(request(), flow)
    assert isinstance(challenge, Challenge)
    return challenge.values


def test_a_challenge_for_each_algorithm_best_first() -> None:
    gate = Gatekeeper(TRUNKS, unknown="challenge", secret=b"0" * 32, algorithms=("SHA-256", "MD5"))
    assert ["SHA-256" in value for value in challenged(gate)] == [True, False]


@pytest.mark.parametrize("method", METHODS)
def test_trunk_is_known_by_its_address_whatever_it_asks(method: str) -> None:
    for unknown in ("drop", "challenge", "forbid"):
        gate = gatekeeper(unknown)  # type: ignore[arg-type]
        assert gate.identify(request(method=method), flow_from(CARRIER_ADDRESS)) == Known(CARRIER)


@pytest.mark.parametrize("method", METHODS)
def test_stranger_gets_not_a_byte_where_strangers_are_dropped(method: str) -> None:
    assert gatekeeper("drop").identify(request(method=method), STRANGER) == Ignore()


@pytest.mark.parametrize("unknown", ["challenge", "forbid"])
@pytest.mark.parametrize("method", ["ACK", "CANCEL"])
def test_ack_and_cancel_of_a_stranger_are_never_answered(unknown: gates.UnknownPolicy, method: str) -> None:
    assert gatekeeper(unknown).identify(request(method=method), STRANGER) == Ignore()


@pytest.mark.parametrize("method", ["INVITE", "OPTIONS", "REGISTER"])
def test_stranger_is_told_where_strangers_are_forbidden(method: str) -> None:
    assert gatekeeper("forbid").identify(request(method=method), STRANGER) == Refuse(403)


@pytest.mark.parametrize("method", ["INVITE", "OPTIONS"])
def test_stranger_is_asked_who_it_is(method: str) -> None:
    challenge = gatekeeper().identify(request(method=method), STRANGER)
    assert isinstance(challenge, Challenge)
    assert all("nonce=" in value and 'realm="rtc_server"' in value for value in challenge.values)


def test_stranger_cannot_register() -> None:
    assert gatekeeper().identify(request(method="REGISTER"), STRANGER) == Refuse(403)


def test_trunk_is_known_by_its_digest() -> None:
    gate = gatekeeper()
    for value in challenged(gate):
        asked = request(authorization([value], "open sesame"))
        assert gate.identify(asked, STRANGER) == Known(BRANCH)


def test_digest_is_not_looked_at_where_strangers_are_dropped() -> None:
    asked = request(authorization(challenged(gatekeeper()), "open sesame"))
    assert gatekeeper("drop").identify(asked, STRANGER) == Ignore()


@pytest.mark.parametrize(("username", "password"), [("branch", "wrong"), ("nobody", "open sesame"), ("carrier", "")])
def test_wrong_digest_is_refused(username: str, password: str) -> None:
    gate = gatekeeper()
    asked = request(authorization(challenged(gate), password, username))
    assert gate.identify(asked, STRANGER) == Refuse(403)


def test_wrong_digest_is_logged_with_the_trunk_it_is_of_and_not_with_words_of_a_stranger() -> None:
    gate = gatekeeper()
    with captured_logs() as logs:
        for username in ("branch", "nobody"):
            asked = request(authorization(challenged(gate), "wrong", username))
            assert gate.identify(asked, STRANGER) == Refuse(403)
    assert [(entry["event"], entry["trunk"], entry["callee"], entry["answer"]) for entry in logs] == [
        ("wrong SIP digest", "branch", "agent", 403),
        ("wrong SIP digest", None, "agent", 403),
    ]
    assert "nobody" not in str(logs) and STRANGER_ADDRESS not in str(logs)


@pytest.mark.parametrize(("unknown", "answer"), [("drop", None), ("forbid", 403), ("challenge", 401)])
def test_call_of_no_trunk_is_logged_where_it_is_not_asked_who_it_is(
    unknown: gates.UnknownPolicy, answer: int | None
) -> None:
    gate = gatekeeper(unknown)
    with captured_logs() as logs:
        for method in METHODS:
            gate.identify(request(method=method), STRANGER)
    expected = [] if unknown == "challenge" else [("SIP call of no trunk", "agent", answer)]
    assert [(entry["event"], entry["callee"], entry["answer"]) for entry in logs] == expected


def test_flood_is_not_a_flood_of_log_lines() -> None:
    clock = Clock()
    gate = gatekeeper("drop", clock)
    with captured_logs() as logs:
        for _ in range(500):
            gate.identify(request(), STRANGER)
        assert [line["event"] for line in logs] == ["SIP call of no trunk"] * gates.LINES_OF_EACH + [
            "SIP limit reached"
        ]
        for number in range(2000):
            gate.identify(request(), flow_from(f"10.1.{number >> 8}.{number & 255}"))
        assert len(logs) == gates.LINES_OF_ALL + gates.LINES_OF_LIMIT
        clock.now_s += 60
        gate.identify(request(), STRANGER)
    assert logs[-1]["left_out"] > 1000


def test_old_nonce_is_stale_and_not_a_failure() -> None:
    clock = Clock()
    gate = gatekeeper(clock=clock)
    asked = request(authorization(challenged(gate), "open sesame"))
    clock.now_s += 86_400
    for _ in range(20):
        challenge = gate.identify(asked, STRANGER)
        assert isinstance(challenge, Challenge)
        assert "stale=true" in challenge.values[0].lower()
        clock.now_s += 1
    assert gate.identify(request(authorization(challenge.values, "open sesame")), STRANGER) == Known(BRANCH)


def test_digest_of_another_realm_is_challenged() -> None:
    foreign = 'Digest realm="elsewhere", nonce="abc", algorithm=MD5, qop="auth"'
    gate = gatekeeper()
    assert isinstance(gate.identify(request(authorization([foreign], "open sesame")), STRANGER), Challenge | Refuse)


@pytest.mark.parametrize("value", ["", "Digest", "Basic YTpi", "Digest nonce=", 'Digest username="branch"', "é"])
def test_malformed_credentials_let_nobody_in(value: str) -> None:
    identity = gatekeeper().identify(request(f"Authorization: {value}"), STRANGER)
    assert isinstance(identity, Challenge | Refuse)


def test_source_that_guesses_passwords_has_to_wait() -> None:
    clock = Clock()
    gate = gatekeeper(clock=clock)
    values = challenged(gate)
    for number in range(sources.FAILURES_FREE + 1):
        assert gate.identify(request(authorization(values, f"guess {number}")), STRANGER) == Refuse(403)
    right = request(authorization(values, "open sesame"))
    assert gate.identify(right, STRANGER) == Ignore()
    assert gate.identify(request(authorization(challenged(gate, OTHER), "open sesame")), OTHER) == Known(BRANCH)
    clock.now_s += sources.FIRST_BACKOFF_S
    assert gate.identify(request(authorization(challenged(gate), "open sesame")), STRANGER) == Known(BRANCH)


def test_flood_of_one_source_is_not_answered_and_leaves_others_alone() -> None:
    gate = gatekeeper()
    answered = sum(gate.identify(request(), STRANGER) != Ignore() for _ in range(500))
    assert answered == sources.REQUESTS_AT_ONCE
    assert isinstance(gate.identify(request(), OTHER), Challenge)
    assert gate.identify(request(), flow_from(CARRIER_ADDRESS)) == Known(CARRIER)


def test_flood_from_everywhere_is_answered_so_much_and_no_more() -> None:
    gate = gatekeeper("forbid")
    asked = request()
    flows = [flow_from(f"10.1.{number >> 8}.{number & 255}") for number in range(2000)]
    answered = sum(gate.identify(asked, flow) == Refuse(403) for flow in flows)
    assert answered == sources.ALL_ANSWERS_AT_ONCE
    assert gate.identify(asked, flow_from(CARRIER_ADDRESS)) == Known(CARRIER)


def test_flood_of_a_trunk_has_a_limit_too() -> None:
    gate = gatekeeper()
    asked = request()
    known = sum(gate.identify(asked, flow_from(CARRIER_ADDRESS)) == Known(CARRIER) for _ in range(1000))
    assert known == gates.TRUNK_REQUESTS_AT_ONCE


def test_what_cannot_be_read_is_answered_to_a_trunk_and_sparingly_to_strangers() -> None:
    assert gatekeeper("drop").allow_refusal(flow_from(CARRIER_ADDRESS))
    assert not gatekeeper("drop").allow_refusal(STRANGER)
    gate = gatekeeper("challenge")
    assert sum(gate.allow_refusal(STRANGER) for _ in range(500)) == sources.REQUESTS_AT_ONCE
    assert gate.identify(request(), STRANGER) == Ignore()


# ---- before a message is read ----------------------------------------------------------------------------------------


def heard(gate: Gatekeeper, host: str, times: int, transport: Transport = "udp") -> int:
    return sum(gate.allow(host, transport) for _ in range(times))


def flood_in_many_names(gate: Gatekeeper, transport: Transport = "udp") -> int:
    """How many are heard."""
    hosts = [f"10.{number >> 8}.{number & 255}.1" for number in range(2 * sources.MAX_SOURCES)]
    return sum(gate.allow(host, transport) for host in hosts)


def test_a_stranger_is_listened_to_so_often_and_a_trunk_always() -> None:
    clock = Clock()
    gate = gatekeeper(clock=clock)
    assert gate.is_trunk(CARRIER_ADDRESS) and not gate.is_trunk(STRANGER_ADDRESS)
    assert heard(gate, STRANGER_ADDRESS, 1000) == sources.MESSAGES_AT_ONCE
    assert heard(gate, CARRIER_ADDRESS, 1000) == 1000
    clock.now_s += 1
    assert heard(gate, STRANGER_ADDRESS, 1000) == sources.MESSAGES_PER_S


def test_a_flood_of_one_stranger_leaves_the_others_their_share() -> None:
    gate = gatekeeper()
    heard(gate, STRANGER_ADDRESS, 10_000)
    assert heard(gate, "198.51.100.77", 10) == 10


def test_a_flood_in_many_names_is_bounded_and_who_has_proven_a_digest_gets_through() -> None:
    clock = Clock()
    gate = gatekeeper(clock=clock)
    assert gate.identify(request(authorization(challenged(gate), "open sesame")), STRANGER) == Known(BRANCH)
    assert flood_in_many_names(gate) == sources.ALL_MESSAGES_AT_ONCE
    assert heard(gate, STRANGER_ADDRESS, 10) == 10
    assert not gate.allow("198.51.100.77", "udp")
    clock.now_s += 1
    assert gate.allow("198.51.100.77", "udp")


# ---- each transport apart: over UDP anybody may write any source address ---------------------------------------------


@pytest.mark.parametrize("flooded", TRANSPORTS)
def test_flood_over_one_transport_leaves_the_same_address_and_all_others_alone_over_another(flooded: Transport) -> None:
    gate = gatekeeper()
    same, carrier = flow_from(STRANGER_ADDRESS, flooded), flow_from(CARRIER_ADDRESS, flooded)
    heard(gate, STRANGER_ADDRESS, 1000, flooded)
    flood_in_many_names(gate, flooded)
    for number in range(1000):
        gate.identify(request(), same)
        gate.identify(request(), carrier)
        gate.allow_refusal(same)
        gate.identify(request(), flow_from(f"10.1.{number >> 8}.{number & 255}", flooded))
    assert not gate.allow(STRANGER_ADDRESS, flooded) and not gate.allow("198.51.100.77", flooded)
    assert {gate.identify(request(), flow) for flow in (same, carrier)} == {Ignore()}
    for transport in set(TRANSPORTS) - {flooded}:
        for host in (STRANGER_ADDRESS, "198.51.100.77"):
            assert heard(gate, host, 10, transport) == 10
            assert isinstance(gate.identify(request(), flow_from(host, transport)), Challenge)
            assert gate.allow_refusal(flow_from(host, transport))
        assert gate.identify(request(), flow_from(CARRIER_ADDRESS, transport)) == Known(CARRIER)


def test_digest_over_a_connection_proves_nothing_for_datagrams_in_the_name_of_its_address() -> None:
    gate = gatekeeper()
    over_tls = flow_from(STRANGER_ADDRESS, "tls")
    assert gate.identify(request(authorization(challenged(gate, over_tls), "open sesame")), over_tls) == Known(BRANCH)
    for transport in TRANSPORTS:
        flood_in_many_names(gate, transport)
    assert [gate.allow(STRANGER_ADDRESS, transport) for transport in ("tls", "udp")] == [True, False]


def test_who_is_ignored_over_one_transport_for_its_wrong_digests_is_not_over_another() -> None:
    gate = gatekeeper()
    for number in range(sources.FAILURES_FREE + 1):
        asked = request(authorization(challenged(gate), f"guess {number}"))
        assert gate.identify(asked, STRANGER) == Refuse(403)
    assert gate.identify(request(), STRANGER) == Ignore()
    over_tcp = flow_from(STRANGER_ADDRESS, "tcp")
    assert gate.identify(request(authorization(challenged(gate, over_tcp), "open sesame")), over_tcp) == Known(BRANCH)


def test_challenge_that_came_over_udp_may_be_answered_over_tcp() -> None:
    """As RFC 3261 section 18.1.1 wants it where the request has become too large for a datagram."""
    gate = gatekeeper()
    answered = request(authorization(challenged(gate), "open sesame"))
    assert gate.identify(answered, flow_from(STRANGER_ADDRESS, "tcp")) == Known(BRANCH)


# ---- nonces ----------------------------------------------------------------------------------------------------------

MADE_UP = 'Digest realm="rtc_server", nonce="bWFkZSB1cA==", algorithm=MD5, qop="auth"'


def test_nobody_can_fail_in_the_name_of_an_address_where_no_challenge_reaches_them() -> None:
    gate = gatekeeper()
    of_attacker = challenged(gate, OTHER)
    for number in range(10 * sources.FAILURES_FREE):
        challenges = [MADE_UP] if number % 2 else of_attacker
        assert isinstance(gate.identify(request(authorization(challenges, "guess")), STRANGER), Challenge)
    assert gate.identify(request(authorization(challenged(gate), "open sesame")), STRANGER) == Known(BRANCH)


def test_guesses_under_a_nonce_that_is_not_fresh_tell_nothing_of_the_password() -> None:
    clock = Clock()
    gate = gatekeeper(clock=clock)
    old = challenged(gate)
    clock.now_s += 3600
    for challenges in ([MADE_UP], old, challenged(gate, OTHER)):
        told = set()
        for password in ("open sesame", "guess"):
            challenge = gate.identify(request(authorization(challenges, password)), STRANGER)
            assert isinstance(challenge, Challenge)
            told |= {re.sub('nonce="[^"]*"', "", value) for value in challenge.values}
        assert len(told) == 1


def test_caller_whose_retry_comes_from_another_address_is_challenged_there_and_let_in() -> None:
    gate = gatekeeper()
    challenge = gate.identify(request(authorization(challenged(gate), "open sesame")), OTHER)
    assert isinstance(challenge, Challenge)
    # Without it our client, and others, would take the second challenge for a wrong password.
    assert "stale=true" in challenge.values[0]
    assert gate.identify(request(authorization(challenge.values, "open sesame")), OTHER) == Known(BRANCH)


def test_caller_with_the_wrong_password_is_challenged_again_once_at_most() -> None:
    gate = gatekeeper()
    challenge = gate.identify(request(authorization([MADE_UP], "wrong")), STRANGER)
    assert isinstance(challenge, Challenge)
    assert gate.identify(request(authorization(challenge.values, "wrong")), STRANGER) == Refuse(403)


def test_one_ipv6_host_may_answer_from_another_address_of_its_network() -> None:
    gate = gatekeeper()
    values = challenged(gate, flow_from("2001:db8::1"))
    assert gate.identify(request(authorization(values, "open sesame")), flow_from("2001:db8::ffff")) == Known(BRANCH)


# ---- the log ---------------------------------------------------------------------------------------------------------


def limits(logs: list[EventDict]) -> list[tuple[str, str | None, str]]:
    return [(line["of"], line["trunk"], line["transport"]) for line in logs if line["event"] == "SIP limit reached"]


def test_trunk_over_its_limit_is_named_in_the_log_once_a_minute() -> None:
    clock = Clock()
    gate = gatekeeper("drop", clock)
    with captured_logs() as logs:
        for _ in range(2):
            for _ in range(1000):
                gate.identify(request(), flow_from(CARRIER_ADDRESS, "tls"))
            clock.now_s += 61
    assert limits(logs) == [("requests", "carrier", "tls")] * 2
    assert logs[-1]["left_out"] == 1000 - gates.TRUNK_REQUESTS_AT_ONCE - 1


def test_trunk_known_by_its_digest_is_named_too() -> None:
    gate = gatekeeper()
    assert gate.identify(request(authorization(challenged(gate), "open sesame")), STRANGER) == Known(BRANCH)
    with captured_logs() as logs:
        heard(gate, STRANGER_ADDRESS, 1000)
    assert limits(logs) == [("messages", "branch", "udp")]


def test_flood_of_strangers_has_a_line_for_each_transport_without_an_address() -> None:
    gate = gatekeeper()
    with captured_logs() as logs:
        for transport in TRANSPORTS:
            heard(gate, STRANGER_ADDRESS, 1000, transport)
            flood_in_many_names(gate, transport)
    assert limits(logs) == [("messages", None, transport) for transport in TRANSPORTS]
    assert STRANGER_ADDRESS not in str(logs) and "10." not in str(logs)


def test_flood_of_others_does_not_hide_that_a_trunk_is_over_its_limit() -> None:
    gate = gatekeeper()
    with captured_logs() as logs:
        flood_in_many_names(gate)
        for number in range(2000):
            gate.identify(request(), flow_from(f"10.1.{number >> 8}.{number & 255}"))
            gate.identify(request(), flow_from(CARRIER_ADDRESS))
    assert sorted(limits(logs), key=str) == [("messages", None, "udp"), ("requests", "carrier", "udp")]


@pytest.mark.parametrize(("unknown", "of"), [("forbid", "answers"), ("challenge", "answers"), ("drop", None)])
def test_that_strangers_are_not_answered_any_more_is_logged(unknown: gates.UnknownPolicy, of: str | None) -> None:
    gate = gatekeeper(unknown)
    with captured_logs() as logs:
        for number in range(1000):
            gate.identify(request(), flow_from(f"10.1.{number >> 8}.{number & 255}"))
    assert limits(logs) == ([(of, None, "udp")] if of else [])


def test_that_a_source_is_ignored_from_now_on_is_logged_however_often_it_was_wrong_before() -> None:
    clock = Clock()
    gate = gatekeeper(clock=clock)
    with captured_logs() as logs:
        for number in range(sources.FAILURES_FREE + 2):
            asked = request(authorization(challenged(gate), "wrong"))
            assert gate.identify(asked, STRANGER) == Refuse(403)
            if number >= sources.FAILURES_FREE:
                assert gate.identify(request(), STRANGER) == Ignore()
            clock.now_s += sources.FIRST_BACKOFF_S
    ignored_s = [line["ignored_s"] for line in logs if line["event"] == "wrong SIP digest"]
    assert ignored_s == [0.0] * gates.LINES_OF_EACH + [1.0, 2.0]
    assert not limits(logs)


def test_that_a_source_is_ignored_is_logged_even_where_many_others_are_wrong() -> None:
    gate = gatekeeper()
    with captured_logs() as logs:
        for number in range(2 * gates.LINES_OF_ALL):
            flow = flow_from(f"10.1.0.{number}")
            gate.identify(request(authorization(challenged(gate, flow), "wrong")), flow)
        for _ in range(sources.FAILURES_FREE + 1):
            gate.identify(request(authorization(challenged(gate), "wrong")), STRANGER)
    assert [line["ignored_s"] for line in logs] == [0.0] * gates.LINES_OF_ALL + [sources.FIRST_BACKOFF_S]
