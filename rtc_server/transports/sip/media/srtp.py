"""Keys of a negotiation as SRTP contexts (RFC 3711). A key that stays the same keeps its context: a new one would begin
with a rollover counter of zero, and the other end would understand nothing (RFC 4568 section 7.1.4).
"""

from __future__ import annotations

from typing import NamedTuple

from pylibsrtp import Policy, Session

from rtc_server.transports.rtp.protection import PLAIN_RTP, Protection
from rtc_server.transports.sip.negotiation.sdes import SrtpKey, SrtpKeys


class Protections(NamedTuple):
    receive: Protection
    send: Protection


class SrtpContexts:
    """The contexts of one call, the latest for each way."""

    def __init__(self) -> None:
        self._keys: SrtpKeys | None = None
        self._protections = Protections(PLAIN_RTP, PLAIN_RTP)

    def of(self, keys: SrtpKeys | None) -> Protections:
        """What `keys` mean; plain RTP where there are none."""
        if keys is None:
            self._keys, self._protections = None, Protections(PLAIN_RTP, PLAIN_RTP)
            return self._protections
        before, (receive, send) = self._keys, self._protections
        if before is None or before.receive != keys.receive:
            receive = _context(keys.receive, Policy.SSRC_ANY_INBOUND)
        if before is None or before.send != keys.send:
            send = _context(keys.send, Policy.SSRC_ANY_OUTBOUND)
        self._keys, self._protections = keys, Protections(receive, send)
        return self._protections


def _context(key: SrtpKey, ssrc_type: int) -> Session:
    return Session(Policy(key=key.key_and_salt, ssrc_type=ssrc_type, srtp_profile=key.srtp_profile))
