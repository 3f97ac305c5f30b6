"""The way a SIP message came or goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Address = tuple[str, int]
"""An IPv4 or IPv6 literal without brackets, and a port."""
Transport = Literal["udp", "tcp", "tls"]


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
