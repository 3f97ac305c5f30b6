"""The offer of the load client, and what it reads from an answer (RFC 8829, RFC 8839, RFC 8841)."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from aiortc import RTCCertificate
from aiortc import sdp as aiortc_sdp
from aiortc.rtcdtlstransport import RTCDtlsParameters

from rtc_server.bench.stampedsocket import Address
from rtc_server.errors import PeerError

OPUS_PAYLOAD_TYPE = 111
RED_PAYLOAD_TYPE = 63
DEFAULT_BITRATE_BPS = 32_000
"""What browsers send of mono speech to an answer without `maxaveragebitrate`."""
SCTP_PORT = 5000
MAX_MESSAGE_BYTES = 65_536


def make_offer(
    certificate: RTCCertificate, ufrag: str, password: str, events: bool, red: bool = False, origin: str | None = None
) -> str:
    """One sendrecv Opus section and, with `events`, a data channel section; no candidates: ours are peer-reflexive.

    Args:
        red: offer redundant audio (RFC 2198) around Opus too.
        origin: session id and version, as ``123 2``; a later offer of a call keeps the id and counts the version up.
    """
    mids = ["0", "1"] if events else ["0"]
    payload_types = [OPUS_PAYLOAD_TYPE, RED_PAYLOAD_TYPE] if red else [OPUS_PAYLOAD_TYPE]
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
        f"o=- {origin or first_origin()} IN IP4 127.0.0.1",
        "s=-",
        "t=0 0",
        f"a=group:BUNDLE {' '.join(mids)}",
        f"m=audio 9 UDP/TLS/RTP/SAVPF {' '.join(map(str, payload_types))}",
        *transport,
        "a=mid:0",
        "a=sendrecv",
        "a=rtcp-mux",
        f"a=rtpmap:{OPUS_PAYLOAD_TYPE} opus/48000/2",
        f"a=fmtp:{OPUS_PAYLOAD_TYPE} minptime=10;useinbandfec=1",
    ]
    if red:
        lines += [
            f"a=rtpmap:{RED_PAYLOAD_TYPE} red/48000/2",
            f"a=fmtp:{RED_PAYLOAD_TYPE} {OPUS_PAYLOAD_TYPE}/{OPUS_PAYLOAD_TYPE}",
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


def first_origin() -> str:
    return f"{secrets.randbits(62)} 2"


def next_origin(origin: str) -> str:
    """Of the next offer of the same call (RFC 3264 section 8)."""
    session_id, version = origin.split()
    return f"{session_id} {int(version) + 1}"


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
    red_payload_type: int | None
    """Of redundant audio, where both ends want it."""
    bitrate_bps: int
    """Of Opus, as a browser would choose it for mono speech."""
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
        red_payload_type=next((c.payloadType for c in audio.rtp.codecs if c.name.lower() == "red"), None),
        bitrate_bps=_bitrate_bps(codec.parameters.get("maxaveragebitrate")),
        sctp_port=(application.sctp_port or SCTP_PORT) if application is not None else None,
    )


def _bitrate_bps(given: object) -> int:
    """RFC 7587 section 7.1 allows 6000 to 510000."""
    try:
        return min(max(int(str(given)), 6000), 510_000)
    except ValueError:
        return DEFAULT_BITRATE_BPS


def _is_address(host: str) -> bool:
    """False for ``.local`` names: their resolution is none of a benchmark's business."""
    return not host.endswith(".local")
