"""What stands between RTP and the wire: SRTP, or nothing (RFC 3550, 3711)."""

from __future__ import annotations

from typing import Protocol


class Protection(Protocol):
    """One way of a stream. `pylibsrtp.Session` is one, with a key for this way.

    To unprotect raises `pylibsrtp.Error` for what does not authenticate or is a copy, and ValueError for what is longer
    than any packet.
    """

    def protect(self, packet: bytes) -> bytes: ...

    def protect_rtcp(self, packet: bytes) -> bytes: ...

    def unprotect(self, packet: bytes) -> bytes: ...

    def unprotect_rtcp(self, packet: bytes) -> bytes: ...


class PlainRtp:
    """No protection: who may send is up to whoever looks at the source."""

    def protect(self, packet: bytes) -> bytes:
        return packet

    protect_rtcp = unprotect = unprotect_rtcp = protect


PLAIN_RTP = PlainRtp()
