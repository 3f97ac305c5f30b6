"""Our side of a new connection: fresh credentials and numbers, and the transport's certificate, port and addresses."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from aiortc import RTCCertificate

from rtc_server.transports.webrtc.ice import Credentials
from rtc_server.transports.webrtc.offer import Fingerprint
from rtc_server.transports.webrtc.sdp import LocalDescription


def describe(
    certificate: RTCCertificate, addresses: Sequence[str], port: int, peers_on_loopback: bool
) -> LocalDescription:
    return LocalDescription(
        credentials=Credentials.random(),
        fresh_credentials=Credentials.random(),
        fingerprint=_fingerprint(certificate),
        addresses=tuple(addresses),
        port=port,
        ssrc=secrets.randbits(32) or 1,
        cname=secrets.token_hex(8),
        session_id=secrets.randbits(62),
        peers_on_loopback=peers_on_loopback,
    )


def _fingerprint(certificate: RTCCertificate) -> Fingerprint:
    found = next(item for item in certificate.getFingerprints() if item.algorithm == "sha-256")
    return Fingerprint(found.algorithm, found.value)
