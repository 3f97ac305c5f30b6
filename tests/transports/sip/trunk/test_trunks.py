from __future__ import annotations

import ipaddress

import pytest

from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.trunk.numbers import NumberRule
from rtc_server.transports.sip.trunk.patterns import Pattern
from rtc_server.transports.sip.trunk.trunks import Login, Trunk, Trunks

CARRIER = Trunk(
    "carrier",
    networks=(ipaddress.ip_network("192.0.2.0/28"), ipaddress.ip_network("2001:db8:1::/48")),
    numbers=(
        NumberRule(Pattern("+15550100"), persona="Ann"),
        NumberRule(Pattern("+1555*"), persona="Bob", allow_callers=(Pattern("+1*"),)),
        NumberRule(Pattern("agent"), allow_callers=(Pattern("+1*"), Pattern("anonymous"))),
    ),
)
BRANCH = Trunk("branch", inbound=Login("branch", "secret"), target=Target("udp", "192.0.2.99", None))
TRUNKS = Trunks([CARRIER, BRANCH])


@pytest.mark.parametrize(
    ("address", "trunk"),
    [
        ("192.0.2.15", CARRIER),
        ("::ffff:192.0.2.15", CARRIER),
        ("2001:db8:1::7", CARRIER),
        ("192.0.2.16", None),
        ("fe80::1%eth0", None),
        ("sip.example.com", None),
        ("", None),
    ],
)
def test_trunk_is_known_by_where_its_requests_come_from(address: str, trunk: Trunk | None) -> None:
    assert TRUNKS.by_address(address) is trunk


def test_trunk_is_known_by_its_names() -> None:
    assert TRUNKS.named("carrier") is CARRIER
    assert TRUNKS.named("nobody") is None
    assert TRUNKS.by_username("branch") is BRANCH
    assert TRUNKS.by_username("carrier") is None
    assert list(TRUNKS) == [CARRIER, BRANCH]


@pytest.mark.parametrize(
    ("trunk", "host", "owns"),
    [
        (CARRIER, "192.0.2.15", True),
        (CARRIER, "::ffff:192.0.2.15", True),
        (CARRIER, "192.0.2.16", False),
        (CARRIER, "sip.example.com", False),
        (BRANCH, "192.0.2.99", True),
        (BRANCH, "192.0.2.98", False),
        (Trunk("named", target=Target("tls", "sip.example.com")), "SIP.example.com", True),
        (Trunk("named", target=Target("tls", "sip.example.com")), "sip.example.com.evil.example", False),
        (Trunk("ipv6", target=Target("udp", "2001:db8::1")), "2001:DB8:0::1", True),
        (Trunk("none"), "", False),
    ],
)
def test_hosts_of_a_trunk_are_those_in_its_settings(trunk: Trunk, host: str, owns: bool) -> None:
    assert trunk.owns(host) is owns


@pytest.mark.parametrize(
    ("number", "persona"), [("+15550100", "Ann"), ("+15550101", "Bob"), ("+49301234", None), ("", None)]
)
def test_first_rule_that_fits_a_number_counts(number: str, persona: str | None) -> None:
    rule = CARRIER.rule_for(number)
    assert (rule and rule.persona) == persona


def test_rule_says_who_may_call() -> None:
    everybody, americans, withheld = CARRIER.numbers
    assert everybody.admits(None)
    assert everybody.admits("+49301234")
    assert americans.admits("+15550100")
    assert not americans.admits("+49301234")
    assert not americans.admits(None)
    assert withheld.admits(None)


def test_only_numbers_that_are_named_may_be_dialled() -> None:
    target = Target("udp", "192.0.2.99", None)
    assert not BRANCH.may_dial("+15550100")
    assert Trunk("out", target=target, dialable=(Pattern("+1555*"),)).may_dial("+15550100")
    assert not Trunk("out", target=target, dialable=(Pattern("+1555*"),)).may_dial("+19005550100")
    assert not Trunk("in", dialable=(Pattern("*"),)).may_dial("+15550100")


def test_passwords_are_not_printed() -> None:
    assert "secret" not in repr(BRANCH)
    assert "secret" not in repr(Trunk("out", username="me", password="secret"))
