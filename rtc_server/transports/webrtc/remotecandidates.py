"""Candidates of a peer that is ICE-lite: where our checks go (RFC 8839 section 5.1).

An offer thereby makes this server send datagrams to addresses of the caller's choice. So they are few, each is an
address literal of a machine elsewhere, and nothing is resolved.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from rtc_server.transports.webrtc.offer import whole_number
from rtc_server.transports.webrtc.sdp import RemoteCandidate

MAX_CANDIDATES = 16

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def usable_candidates(values: Iterable[str], *, allow_loopback: bool) -> tuple[RemoteCandidate, ...]:
    """UDP candidates of component 1, highest priority first, at most `MAX_CANDIDATES`; all others are passed over.

    Args:
        values: of ``a=candidate``, without the name.
        allow_loopback: where the peer is on this machine.
    """
    found: dict[tuple[str, int], RemoteCandidate] = {}
    for value in values:
        candidate = _candidate(value, allow_loopback)
        if candidate is not None:
            key = (candidate.host, candidate.port)
            known = found.get(key)
            if known is None or known.priority < candidate.priority:
                found[key] = candidate
    return tuple(sorted(found.values(), key=lambda item: -item.priority)[:MAX_CANDIDATES])


def _candidate(value: str, allow_loopback: bool) -> RemoteCandidate | None:
    words = value.split()
    if len(words) < 8:
        return None
    _, component, transport, priority_text, host, port_text, typ, _ = words[:8]
    priority, port = whole_number(priority_text, 1, 2**32 - 1), whole_number(port_text, 1, 65535)
    address = _address(host, allow_loopback)
    if (component, transport.lower(), typ.lower()) != ("1", "udp", "typ"):
        return None
    if priority is None or port is None or address is None:
        return None
    return RemoteCandidate(str(address), port, priority)


def _address(host: str, allow_loopback: bool) -> IpAddress | None:
    try:
        address: IpAddress = ipaddress.ip_address(host)
    except ValueError:
        return None  # a name, as browsers give them (.local)
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return None  # means something on the peer's machine only
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return address if allow_loopback else None
    nowhere = address.is_unspecified or address.is_multicast or address.is_link_local or address.is_reserved
    return None if nowhere else address
