"""Why a connection did not come about, in words that tell what to look at. Never an address."""

from __future__ import annotations

import os
import ssl

_ALERTS = {
    "UNKNOWN_CA": "the other end does not trust our certificate: it knows no such authority, or the chain has a gap",
    "CERTIFICATE_UNKNOWN": "the other end does not take our certificate: its name, its authority or its use",
    "BAD_CERTIFICATE": "the other end does not take our certificate: its name, its authority or its use",
    "CERTIFICATE_EXPIRED": "the other end says that our certificate has expired",
    "CERTIFICATE_REQUIRED": "the other end wants a certificate of ours",
    "HANDSHAKE_FAILURE": "the other end found no cipher or certificate that suits it",
    "PROTOCOL_VERSION": "the two ends have no version of TLS in common; 1.2 and 1.3 are spoken here",
}
_CLOSED = "the other end closed the connection before it was up; with TLS often since it distrusts our certificate"
_REASONS = {
    "WRONG_VERSION_NUMBER": "what came is no TLS",
    "HTTP_REQUEST": "what came is no TLS, but HTTP",
    "UNSUPPORTED_PROTOCOL": _ALERTS["PROTOCOL_VERSION"],
    "NO_SHARED_CIPHER": "the two ends have no cipher in common",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the other end shows no certificate, which tls_verify_clients asks for",
    "UNEXPECTED_EOF_WHILE_READING": "the other end closed the connection in the middle of the TLS handshake",
}


def words_for(error: OSError) -> str:
    """What the operator reads."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the other end's certificate is not taken: {getattr(error, 'verify_message', error)}"
        case ssl.SSLError():
            return _words_for_tls(getattr(error, "reason", None) or "")  # set by OpenSSL only
        case ConnectionAbortedError() | TimeoutError():
            return "the other end did not answer in time"
        case ConnectionResetError():
            return _CLOSED
        case ConnectionError() if error.errno is not None:
            return os.strerror(error.errno)  # asyncio's own words have the address in them
    return error.strerror or str(error) or type(error).__name__


def _words_for_tls(reason: str) -> str:
    """`reason`: OpenSSL's, such as ``TLSV1_ALERT_UNKNOWN_CA``."""
    _, is_alert, alert = reason.partition("_ALERT_")
    known = _ALERTS.get(alert) if is_alert else _REASONS.get(reason)
    return known or f"TLS: {reason.replace('_', ' ').lower() or 'no reason given'}"
