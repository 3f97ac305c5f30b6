"""Where the server listens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Self

from rtc_server.transports.sip.flow import Transport

DEFAULT_PORT: dict[Transport, int] = {"udp": 5060, "tcp": 5060, "tls": 5061}
"""RFC 3261 section 19.1.2."""


def transport_named(text: str) -> Transport:
    """Upper or lower case. Raises: ValueError for one that is not spoken here."""
    match text.lower():
        case "udp":
            return "udp"
        case "tcp":
            return "tcp"
        case "tls":
            return "tls"
    raise ValueError(f"{text!r} is none of udp, tcp and tls")


@dataclass(frozen=True, slots=True)
class ListenOn:
    """An address of this machine, or all of one family (``0.0.0.0``, ``::``). Port 0 is any free one."""

    transport: Transport
    host: str
    """An IPv4 or IPv6 literal without brackets."""
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """``udp:0.0.0.0:5060``, ``tls:[::]:5061``; without a port that of the transport. Raises: ValueError."""
        name, colon, place = text.strip().partition(":")
        if not colon:
            raise ValueError(f"{text!r} is no place to listen on; write it as udp:0.0.0.0:5060 or tls:[::]:5061")
        transport = transport_named(name)
        if place.startswith("["):
            host, bracket, rest = place[1:].partition("]")
            ipaddress.IPv6Address(host if bracket else "")
        else:
            host, colon, digits = place.partition(":")
            rest = colon + digits
            ipaddress.IPv4Address(host)
        if not rest:
            return cls(transport, host, DEFAULT_PORT[transport])
        digits = rest[1:]
        if rest[0] != ":" or not (digits.isascii() and digits.isdigit()) or int(digits) > 65535:
            raise ValueError(f"{text!r} has no good port")
        return cls(transport, host, int(digits))

    def __str__(self) -> str:
        return f"{self.transport}:{host_and_port(self.host, self.port)}"


def host_and_port(host: str, port: int) -> str:
    """As URIs and Via have it: an IPv6 literal stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
