"""What a media section says of who wrote it: where its RTP goes, whether it is encrypted, which ways it flows."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace

from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.negotiation.agreedmedia import PTIME_MS, SrtpPolicy
from rtc_server.transports.sip.negotiation.sdp import MediaRefused, MediaSection, whole_number

DISCARD_PORT = 9
"""RFC 863: stands where no port is meant."""

_PLAIN = ("RTP/AVP", "RTP/AVPF")
_SECURE = ("RTP/SAVP", "RTP/SAVPF")


@dataclass(frozen=True, slots=True)
class RemoteEnd:
    """The other end of a section. `rtp` is None where nothing can be sent to."""

    rtp: Address | None
    rtcp: Address | None
    rtcp_mux: bool
    sends: bool
    receives: bool

    def without_mux(self) -> RemoteEnd:
        """As if it had not asked for RTP and RTCP on one port."""
        return replace(self, rtcp_mux=False, rtcp=None if self.rtp is None else _port_after(self.rtp))


def is_secure(section: MediaSection) -> bool:
    """SRTP, with its keys in the description."""
    return section.profile.upper() in _SECURE


def check_profile(section: MediaSection, srtp: SrtpPolicy) -> None:
    """Raises: MediaRefused for a profile that the trunk's settings forbid, or that is not known here at all."""
    secure = is_secure(section)
    if not secure and section.profile.upper() not in _PLAIN:
        raise MediaRefused(488, f"the profile {section.profile} is not taken here; offer RTP/AVP or RTP/SAVP", 302)
    if secure and srtp == "never":
        raise MediaRefused(488, f"the profile {section.profile} is not taken here; offer RTP/AVP", 302)
    if not secure and srtp == "require":
        raise MediaRefused(488, f"the profile {section.profile} is not taken here; offer RTP/SAVP with a=crypto", 302)


def ptime_ms(section: MediaSection) -> int:
    """How long our packets may be. `a=ptime` is a wish, and 20 ms are what everyone takes; `a=maxptime` is a limit."""
    longest = whole_number(section.value("maxptime"), 10, 1000)
    return 10 if longest is not None and longest < PTIME_MS else PTIME_MS


def remote_end(section: MediaSection, ip_version: int) -> RemoteEnd:
    """Who wrote the section, for an end that has addresses of `ip_version`.

    Raises: MediaRefused where its address is no good: missing, a group's, or of another family than ours."""
    mux = section.value("rtcp-mux") is not None
    direction = section.direction
    sends, receives = direction in ("sendrecv", "sendonly"), direction in ("sendrecv", "recvonly")
    if section.address is None:
        raise MediaRefused(400, "the audio section has no c= line")
    host, is_hold = _host(section.address, ip_version)
    if is_hold or section.port == DISCARD_PORT:
        return RemoteEnd(None, None, mux, sends, receives=False)
    if host is None:
        return RemoteEnd(None, None, mux, sends, receives)
    rtp = (host, section.port)
    rtcp = rtp if mux else _rtcp(section, ip_version) or _port_after(rtp)
    return RemoteEnd(rtp, rtcp, mux, sends, receives)


def _host(text: str, ip_version: int) -> tuple[str | None, bool]:
    """(address, whether it says hold). Names are not resolved: (None, False)."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        if ":" in text or text.replace(".", "").isdigit():
            raise MediaRefused(400, "malformed address in a c= line") from None
        return None, False
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_unspecified:
        return None, True
    if address.is_multicast or str(address) == "255.255.255.255" or "%" in text:
        raise MediaRefused(488, "the address in the c= line is not that of one host", 330)
    if address.version != ip_version:
        raise MediaRefused(488, f"IPv{address.version} media is not taken here", 301)
    return str(address), False


def _rtcp(section: MediaSection, ip_version: int) -> Address | None:
    """`a=rtcp:port [IN IP4 address]` (RFC 3605); None where it is missing or no good."""
    words = (section.value("rtcp") or "").split()
    port = whole_number(words[0], 1, 65535) if words else None
    text = words[3] if len(words) > 3 else section.address
    if port is None or text is None:
        return None
    try:
        host, _ = _host(text, ip_version)
    except MediaRefused:
        return None
    return None if host is None else (host, port)


def _port_after(rtp: Address) -> Address | None:
    return (rtp[0], rtp[1] + 1) if rtp[1] < 65535 else None
