"""Requests as they come from the wire."""

from __future__ import annotations

from rtc_server.transports.sip.flow import Flow, Transport
from rtc_server.transports.sip.message.message import Request, parse

CARRIER_ADDRESS = "192.0.2.7"
STRANGER_ADDRESS = "198.51.100.7"


def flow_from(address: str, transport: Transport = "udp") -> Flow:
    return Flow(transport, ("203.0.113.50", 5060), (address, 5060))


def request(
    *headers: str,
    method: str = "INVITE",
    uri: str = "sip:agent@203.0.113.50",
    caller: str = "<sip:+15550100@198.51.100.7>",
    to: str = "<sip:agent@203.0.113.50>",
) -> Request:
    lines = [
        f"{method} {uri} SIP/2.0",
        "Via: SIP/2.0/UDP 198.51.100.7;rport;branch=z9hG4bK671a454b",
        "Max-Forwards: 70",
        f"From: {caller};tag=671a454b",
        f"To: {to}",
        "Call-ID: 671a454b5a66539c644a",
        f"CSeq: 1 {method}",
        *headers,
        "Content-Length: 0",
        "",
        "",
    ]
    parsed = parse("\r\n".join(lines).encode())
    assert isinstance(parsed, Request)
    return parsed
