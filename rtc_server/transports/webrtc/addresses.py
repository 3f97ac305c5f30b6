"""Which of this machine's addresses an answer offers.

Those of interfaces that are up, the one that the default route uses first, loopback last; nothing that only containers
on this machine can reach, nothing link-local. Browsers ignore loopback candidates, other clients do not.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ifaddr

from rtc_server.errors import ConfigError

MAX_ADDRESSES = 8

_CONTAINER_BRIDGES = (
    "br-",
    "cali",
    "cni",
    "docker",
    "flannel",
    "kube",
    "lxc",
    "lxd",
    "podman",
    "veth",
    "virbr",
    "vnet",
)
_OUTSIDE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Documentation addresses (RFC 5737, 3849): some place that only the default route leads to."""
_SYS_CLASS_NET = Path("/sys/class/net")
_IFF_UP = 1

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Adapter:
    name: str
    up: bool
    addresses: tuple[str, ...]


def advertised_addresses(configured: Sequence[str], families: Sequence[str]) -> list[str]:
    """The addresses for our answers: `configured` if given, else this machine's own.

    Args:
        configured: of ``--advertise-ip``.
        families: ``IPv4``, ``IPv6``: what the UDP port is bound on. Others are left out of this machine's own.

    Raises: ConfigError for something that is no address.
    """
    if configured:
        return [check_address(text) for text in configured]
    return choose_addresses(read_adapters(), default_route_addresses(), families)


def has_loopback(addresses: Iterable[str]) -> bool:
    return any(ipaddress.ip_address(address).is_loopback for address in addresses)


def check_address(text: str) -> str:
    """An IPv4 or IPv6 literal that can be advertised; names are never resolved. Raises: ConfigError."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        raise ConfigError(f"advertise_ip={text!r} is no IP address", hint="give an IPv4 or IPv6 address") from None
    if address.is_unspecified or address.is_multicast:
        raise ConfigError(f"advertise_ip={text!r} is no address of a machine", hint="give the one that clients reach")
    return str(address)


def choose_addresses(
    adapters: Iterable[Adapter], default_route: Sequence[str], families: Sequence[str] = ("IPv4", "IPv6")
) -> list[str]:
    """At most `MAX_ADDRESSES` of `adapters`, best first. Pure."""
    usable: dict[IpAddress, None] = {}
    for adapter in adapters:
        if adapter.up and not adapter.name.startswith(_CONTAINER_BRIDGES):
            for text in adapter.addresses:
                address = _usable(text, families)
                if address is not None:
                    usable[address] = None

    def rank(address: IpAddress) -> tuple[bool, int, int]:
        text = str(address)
        preferred = default_route.index(text) if text in default_route else len(default_route)
        return address.is_loopback, preferred, address.version

    return [str(address) for address in sorted(usable, key=rank)[:MAX_ADDRESSES]]


def _usable(text: str, families: Sequence[str]) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return None
    return address if f"IPv{address.version}" in families else None


# ---- reading this machine --------------------------------------------------------------------------------------------


def read_adapters() -> list[Adapter]:
    """What the system says at present."""
    found = []
    for adapter in ifaddr.get_adapters():
        addresses = tuple(item.ip if isinstance(item.ip, str) else item.ip[0] for item in adapter.ips)
        found.append(Adapter(adapter.nice_name, _is_up(adapter.nice_name), addresses))
    return found


def default_route_addresses() -> list[str]:
    """Our own address on the default route, for each address family that has one. Sends nothing."""
    found = []
    for family, outside in _OUTSIDE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((outside, 9))  # connect() on UDP only chooses the route
                found.append(str(probe.getsockname()[0]))
        except OSError:
            continue
    return found


def _is_up(name: str) -> bool:
    """Linux says so in /sys; elsewhere an adapter that has an address counts as up."""
    try:
        return bool(int((_SYS_CLASS_NET / name / "flags").read_text(), 16) & _IFF_UP)
    except (OSError, ValueError):
        return True
