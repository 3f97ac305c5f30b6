from __future__ import annotations

import pytest

from rtc_server.transports.sip.hosts import host_and_port, is_address, private_network


def test_ipv6_stands_in_brackets_before_a_port() -> None:
    assert host_and_port("192.0.2.1", 5060) == "192.0.2.1:5060"
    assert host_and_port("2001:db8::1", 5060) == "[2001:db8::1]:5060"
    assert host_and_port("sip.example.com", 5061) == "sip.example.com:5061"


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "[2001:db8::1]", "fe80::1%eth0"])
def test_addresses_are_no_names(host: str) -> None:
    assert is_address(host)


@pytest.mark.parametrize("host", ["", "sip.example.com", "192.0.2", "[", "[]", "1"])
def test_names_are_no_addresses(host: str) -> None:
    assert not is_address(host)


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.1.2.3", "10.0.0.0/8"),
        ("100.64.0.1", "100.64.0.0/10"),
        ("127.0.0.1", "127.0.0.0/8"),
        ("fd00::1", "fc00::/7"),
        ("fe80::1%eth0", "fe80::/10"),
        ("192.0.2.1", None),
        ("2001:db8::1", None),
    ],
)
def test_addresses_that_mean_something_else_elsewhere(host: str, network: str | None) -> None:
    found = private_network(host)
    assert network == (None if found is None else str(found))
