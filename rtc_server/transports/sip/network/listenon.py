"""Where the server listens."""

from __future__ import annotations

from dataclasses import dataclass

from rtc_server.transports.sip.flow import Transport
from rtc_server.transports.sip.hosts import host_and_port


@dataclass(frozen=True, slots=True)
class ListenOn:
    """An address of this machine, or all of one family (``0.0.0.0``, ``::``). Port 0 is any free one."""

    transport: Transport
    host: str
    """An IPv4 or IPv6 literal without brackets."""
    port: int

    def __str__(self) -> str:
        return f"{self.transport}:{host_and_port(self.host, self.port)}"
