"""The offer of the load client, and what it reads from an answer (RFC 8829, RFC 8839, RFC 8841)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from aiortc import RTCCertificate
from aiortc import sdp as aiortc_sdp
from aiortc.rtcdtlstransport import RTCDtlsParameters

from rtc_server.bench.ice import Address
from rtc_server.errors import PeerError

OPUS_PAYLOAD_TYPE = 111
SCTP_PORT = 5000
MAX_MESSAGE_BYTES = 65_536


def make_offer(certificate: RTCCertificate, ufrag: str, password: str, events: bool) -> str:
    """One sendrecv Opus section and, with `events`, a data channel section; no candidates: ours are peer-reflexive."""
    mids = ["0", "1"] if events else ["0"]
    fingerprint = next(print_ for print_ in certificate.getFingerprints() if print_.algorithm == "sha-256")
    transport = [
        "c=IN IP4 0.0.0.0",
        f"a=ice-ufrag:{ufrag}",
        f"a=ice-pwd:{password}",
        f"a=fingerprint:{fingerprint.algorithm} {fingerprint.value}",
        "a=setup:actpass",
    ]
    lines = [
        "v=0",
        f"o=- {secrets.randbits(62)} 2 IN IP4 127.0.0.1",
        "s=-",
        "t=0 0",
        f"a=group:BUNDLE {' '.join(mids)}",
        f"m=audio 9 UDP/TLS/RTP/SAVPF {OPUS_PAYLOAD_TYPE}",
        *transport,
        "a=mid:0",
        "a=sendrecv",
        "a=rtcp-mux",
        f"a=rtpmap:{OPUS_PAYLOAD_TYPE} opus/48000/2",
        f"a=fmtp:{OPUS_PAYLOAD_TYPE} minptime=10;useinbandfec=1",
    ]
    if events:
        lines += [
            "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
            *transport,
            "a=mid:1",
            f"a=sctp-port:{SCTP_PORT}",
            f"a=max-message-size:{MAX_MESSAGE_BYTES}",
        ]
    return "\r\n".join(lines) + "\r\n"


@dataclass(frozen=True, slots=True)
class RemoteEnd:
    """What an answer says about the server."""

    ufrag: str
    password: str
    candidates: tuple[Address, ...]
    """Host candidates over UDP of one family, in the order of the answer."""
    dtls: RTCDtlsParameters
    takes_client_role: bool
    """The server wants to be the DTLS client, as answerers may (RFC 8842); then we are the server."""
    payload_type: int
    sctp_port: int | None


def read_answer(sdp: str) -> RemoteEnd:
    """Raises: PeerError when the answer cannot carry a call."""
    try:
        description = aiortc_sdp.SessionDescription.parse(sdp)
    except (ValueError, AttributeError, IndexError, AssertionError) as error:
        raise PeerError(f"the answer is not an SDP: {error}") from None
    audio = next((media for media in description.media if media.kind == "audio" and media.port), None)
    if audio is None:
        raise PeerError("the answer accepts no audio")
    if audio.ice is None or audio.dtls is None or not audio.dtls.fingerprints or not audio.ice.usernameFragment:
        raise PeerError("the answer has no ICE credentials or no fingerprint")
    codec = next((codec for codec in audio.rtp.codecs if codec.name.lower() == "opus"), None)
    if codec is None or codec.payloadType is None:
        raise PeerError("the answer does not take Opus")
    hosts = [c for c in audio.ice_candidates if c.component == 1 and c.protocol.lower() == "udp" and _is_address(c.ip)]
    four = tuple((c.ip, c.port) for c in hosts if ":" not in c.ip)
    six = tuple((c.ip, c.port) for c in hosts if ":" in c.ip)
    if not four and not six:
        raise PeerError("the answer names no UDP candidate", hint="the load client does not trickle")
    application = next((media for media in description.media if media.kind == "application" and media.port), None)
    return RemoteEnd(
        ufrag=audio.ice.usernameFragment,
        password=audio.ice.password or "",
        candidates=four or six,
        dtls=audio.dtls,
        takes_client_role=audio.dtls.role == "client",
        payload_type=codec.payloadType,
        sctp_port=(application.sctp_port or SCTP_PORT) if application is not None else None,
    )


def _is_address(host: str) -> bool:
    """False for ``.local`` names: their resolution is none of a benchmark's business."""
    return not host.endswith(".local")
