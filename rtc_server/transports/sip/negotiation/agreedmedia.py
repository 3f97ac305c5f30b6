"""The two ends of a negotiation: what we say of ourselves, and what both agreed on (RFC 3264)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rtc_server.media.audioformat import AudioFormat, CodecName
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.negotiation.sdes import SrtpKeys

Direction = Literal["sendrecv", "sendonly", "recvonly", "inactive"]
SrtpPolicy = Literal["never", "accept", "require"]
"""``accept``: encrypted where the offer asks for it, and never plain to such an offer; our own offers are plain."""

PTIME_MS = 20


@dataclass(frozen=True, slots=True)
class LocalMedia:
    """Where this call's RTP arrives, as the other end must see it: an IPv4 or IPv6 literal and two UDP ports."""

    address: str
    rtp_port: int
    rtcp_port: int

    @property
    def ip_version(self) -> int:
        return 6 if ":" in self.address else 4


@dataclass(frozen=True, slots=True)
class MediaPolicy:
    """What a trunk's settings allow."""

    codecs: tuple[CodecName, ...] = ("opus", "G722", "PCMU", "PCMA")
    """In the order of our own offers; in an answer, the offer's order decides."""
    srtp: SrtpPolicy = "accept"


@dataclass(frozen=True, slots=True)
class TelephoneEvent:
    """Digits as RFC 4733 packets."""

    payload_type: int
    clock_hz: int
    """Of their durations. The codec's, but 8000 where the other end has no other beside Opus."""


@dataclass(frozen=True, slots=True)
class AgreedMedia:
    """What a call sends and receives from now on, until the next offer and answer."""

    audio: AudioFormat
    remote_rtp: Address | None
    """None: there is nowhere to send to. Either the other end holds the call, or it has only named a host, and the
    source of its packets is where to send."""
    remote_rtcp: Address | None
    """As `remote_rtp`, and the same where `rtcp_mux`."""
    telephone_event: TelephoneEvent | None
    direction: Direction
    """Ours: ``recvonly`` means that the other end wants no audio."""
    srtp: SrtpKeys | None
    """None: plain RTP. A key that stays the same keeps its SRTP context and its rollover counter."""
    ptime_ms: int = PTIME_MS
    """Of the packets that we send: 20, or 10 where the other end can take no longer ones."""
    rtcp_mux: bool = False
    """RTP and RTCP share the RTP port, here and there (RFC 5761)."""

    @property
    def expects_audio(self) -> bool:
        """The other end may send audio: silence means something is wrong."""
        return self.direction in ("sendrecv", "recvonly")

    @property
    def sends_audio(self) -> bool:
        """The other end wants our audio."""
        return self.direction in ("sendrecv", "sendonly")


def direction_of(sends: bool, receives: bool) -> Direction:
    """As written by who sends and receives so."""
    if sends:
        return "sendrecv" if receives else "sendonly"
    return "recvonly" if receives else "inactive"
