"""The way a SIP message came or goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Address = tuple[str, int]
"""An IPv4 or IPv6 literal without brackets, and a port."""
Transport = Literal["udp", "tcp", "tls"]
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
DEFAULT_PORT: dict[Transport, int] = {"udp": 5060, "tcp": 5060, "tls": 5061}
"""RFC 3261 section 19.1.2."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A connection, or a socket and one of its peers (RFC 5626 section 1.1)."""

    transport: Transport
    local: Address
    remote: Address
    id: int = 0
    """Tells connections between the same addresses apart, and sockets of one process."""

    @property
    def reliable(self) -> bool:
        """Nothing is lost on the way, so nothing is sent twice."""
        return self.transport != "udp"


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
