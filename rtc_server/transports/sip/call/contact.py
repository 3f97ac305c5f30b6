"""Where the other end of a call reaches us within it (RFC 3261 section 8.1.1.8)."""

from __future__ import annotations

from rtc_server.transports.sip.call.surroundings import Network
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.hosts import host_and_port


def contact_of(network: Network, flow: Flow, *, secure: bool = False) -> str:
    """The value of our Contact header for a peer on this flow. `secure`: it has called a sips: URI."""
    place = host_and_port(*network.contact(flow))
    if secure:
        return f"<sips:{place}>"
    return f"<sip:{place}{'' if flow.transport == 'udp' else f';transport={flow.transport}'}>"
