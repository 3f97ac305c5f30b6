"""Hosts as SIP and SDP name them: names, and addresses with or without brackets."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8"),
        *("fc00::/7", "fe80::/10", "::1/128"),
    )
)
"""RFC 1918, 6598, 3927, 4193, 4291: addresses that mean something else in each network."""


def host_and_port(host: str, port: int) -> str:
    """As URIs and Via have it: an IPv6 literal stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_address(host: str) -> bool:
    """An IPv4 or IPv6 literal, the latter with or without brackets; no name."""
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def ip_of(address: str) -> IpAddress | None:
    """Without a scope, and IPv4 as itself where an IPv6 socket has received it. None: this is no address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


@lru_cache(maxsize=4096)
def source_of(address: str) -> str:
    """What one stranger has of addresses: all of an IPv6 /64 are one source, since one host may have them all."""
    found = ip_of(address)
    if isinstance(found, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Address(int(found) >> 64 << 64))
    return str(found)


def private_network(host: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Which of the networks that nobody else can reach an address lies in; None: everybody can."""
    address = ipaddress.ip_address(host)
    return next((network for network in _PRIVATE if address in network), None)
