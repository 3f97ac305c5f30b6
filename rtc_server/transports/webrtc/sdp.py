"""The two ends of a negotiation: what we say of ourselves, and what both agreed on (RFC 3264, 8829)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rtc_server.media.audioformat import AudioFormat
from rtc_server.transports.webrtc.ice import Credentials
from rtc_server.transports.webrtc.offer import Fingerprint

DtlsRole = Literal["passive", "active"]
"""As in `a=setup` (RFC 8842): the passive end is the DTLS server."""


@dataclass(frozen=True, slots=True)
class LocalDescription:
    """Our side of a call. `addresses` are IPv4 or IPv6 literals, best first; all share `port`."""

    credentials: Credentials
    """In use."""
    fresh_credentials: Credentials
    """For the answer to an offer that restarts ICE."""
    fingerprint: Fingerprint
    addresses: Sequence[str]
    port: int
    ssrc: int
    cname: str
    session_id: int
    peers_on_loopback: bool = False
    """An ICE-lite peer may be on this machine: its loopback addresses are checked like others."""


@dataclass(frozen=True, slots=True)
class RemoteCandidate:
    """Where a peer can be reached that never sends checks itself: a UDP candidate with an address in it."""

    host: str
    port: int
    priority: int


@dataclass(frozen=True, slots=True)
class SctpParameters:
    port: int
    max_message_bytes: int
    """0: no limit (RFC 8841 section 6)."""


@dataclass(frozen=True, slots=True)
class SectionState:
    """What a later offer must keep in place (RFC 3264 section 8)."""

    kind: str
    mid: str | None
    accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedPath:
    """What offer and answer agreed on, but for the audio: how the two ends reach each other."""

    answer_sdp: str
    version: int
    sections: tuple[SectionState, ...]
    remote_ufrag: str
    remote_pwd: str
    remote_fingerprints: tuple[Fingerprint, ...]
    sctp: SctpParameters | None
    setup: DtlsRole = "passive"
    """Our DTLS role: ``active`` (client) only where the offer leaves no choice."""
    remote_lite: bool = False
    """The peer is ICE-lite itself: we control, and send the checks (RFC 8445 section 6.1.1)."""
    remote_candidates: tuple[RemoteCandidate, ...] = ()
    """Only where `remote_lite`; highest priority first."""
    restarts_ice: bool = False
    """The offer has new credentials, and so has the answer: `LocalDescription.fresh_credentials`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Negotiated(AgreedPath):
    """A call; `negotiation.answer_offer` takes it back for the next offer of the call."""

    audio: AudioFormat
    direction: str
    """The answer's: ``sendrecv``, ``sendonly``, ``recvonly`` or ``inactive``."""

    @property
    def expects_audio(self) -> bool:
        """The peer will send audio."""
        return self.direction in ("sendrecv", "recvonly")

    @property
    def sends_audio(self) -> bool:
        """The peer wants our audio."""
        return self.direction in ("sendrecv", "sendonly")
