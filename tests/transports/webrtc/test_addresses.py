from __future__ import annotations

import ipaddress

import pytest

from rtc_server.errors import ConfigError
from rtc_server.transports.webrtc.addresses import (
    MAX_ADDRESSES,
    Adapter,
    advertised_addresses,
    choose_addresses,
    default_route_addresses,
    read_adapters,
)

LOOPBACK = Adapter("lo", True, ("127.0.0.1", "::1"))
WIRED = Adapter("eth0", True, ("192.168.1.5", "fe80::1", "2001:db8::5"))
WIRELESS = Adapter("wlan0", True, ("10.0.0.9",))


def test_default_route_comes_first_and_loopback_last() -> None:
    chosen = choose_addresses([LOOPBACK, WIRED, WIRELESS], ["10.0.0.9"])
    assert chosen == ["10.0.0.9", "192.168.1.5", "2001:db8::5", "127.0.0.1", "::1"]


@pytest.mark.parametrize("name", ["docker0", "br-2f1a", "veth12ab", "virbr0", "cni0", "podman1", "lxcbr0", "flannel.1"])
def test_bridges_of_containers_are_left_out(name: str) -> None:
    assert choose_addresses([Adapter(name, True, ("172.17.0.1",)), WIRED], [])[:1] == ["192.168.1.5"]
    assert choose_addresses([Adapter(name, True, ("172.17.0.1",))], ["172.17.0.1"]) == []


def test_interfaces_that_are_down_and_link_local_addresses_are_left_out() -> None:
    down = Adapter("eth1", False, ("192.168.9.9",))
    local = Adapter("eth2", True, ("169.254.3.4", "fe80::2", "fe80::2%3", "nonsense"))
    assert choose_addresses([down, local, LOOPBACK], []) == ["127.0.0.1", "::1"]


def test_only_families_that_the_port_is_bound_on_are_offered() -> None:
    assert choose_addresses([WIRED, LOOPBACK], [], ["IPv4"]) == ["192.168.1.5", "127.0.0.1"]


def test_addresses_are_named_once_and_bounded() -> None:
    many = Adapter("eth0", True, tuple(f"10.0.0.{n}" for n in range(1, 100)) * 2)
    chosen = choose_addresses([many, LOOPBACK], [])
    assert len(chosen) == MAX_ADDRESSES == len(set(chosen))


def test_configured_addresses_replace_everything_else() -> None:
    assert advertised_addresses(["203.0.113.5", " 2001:DB8::1 "], ["IPv4"]) == ["203.0.113.5", "2001:db8::1"]


@pytest.mark.parametrize("text", ["example.com", "", "1.2.3", "0.0.0.0", "224.0.0.1", "::"])
def test_configured_address_must_be_the_address_of_a_machine(text: str) -> None:
    with pytest.raises(ConfigError, match="advertise_ip"):
        advertised_addresses([text], ["IPv4"])


def test_this_machine_can_be_read() -> None:
    adapters = read_adapters()
    assert adapters
    for text in default_route_addresses():
        assert ipaddress.ip_address(text)
