"""Nonces that nobody has to remember before they are used (RFC 7616 section 5.4). Sans-IO."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable

LIFETIME_S = 60.0
MAX_USED = 4096
"""Nonces whose counts are remembered. The oldest is forgotten first, and cannot be used any more."""
ONCE = 1 << 32
"""The count of a client that sends none: higher than any other, so its nonce serves once."""

_STAMP = struct.Struct("!Q8s")
_MAC_BYTES = 16


class Nonces:
    """A nonce holds its time and a MAC over that and over whom it was made for, so a flood of challenges costs no
    memory, and who shows a fresh one has been sent it: nobody can make one up, or use another's.

    Args:
        clock: monotonic seconds.
        secret: at least 16 bytes that nobody else knows.
    """

    def __init__(self, clock: Callable[[], float], secret: bytes) -> None:
        self._clock = clock
        self._secret = secret
        self._counts: dict[str, int] = {}
        """The highest count seen, by nonce, in the order of first use."""
        self._forgotten_ms = -1
        """What was made until then may have been used without our knowing any more."""

    def make(self, peer: str) -> str:
        """`peer`: where the challenge is sent, as it will be given to `is_fresh`."""
        stamp = _STAMP.pack(int(self._clock() * 1000), secrets.token_bytes(8))
        return base64.urlsafe_b64encode(stamp + self._mac(stamp, peer)).decode()

    def is_fresh(self, nonce: str, peer: str) -> bool:
        """Whether it was made here, for this peer, and not too long ago. Says nothing of its count: that is for `use`,
        once the client has proved to be somebody."""
        stamp, mac = _parts(nonce)
        if len(stamp) < _STAMP.size or not hmac.compare_digest(mac, self._mac(stamp, peer)):
            return False
        made_ms = _made_ms(stamp)
        return not self._is_old(made_ms) and (made_ms > self._forgotten_ms or nonce in self._counts)

    def use(self, nonce: str, count: int) -> bool:
        """Whether this count of a fresh nonce is the first of its kind: higher than all before."""
        if count <= self._counts.get(nonce, 0):
            return False
        self._counts[nonce] = count
        while len(self._counts) > 1 and (len(self._counts) > MAX_USED or self._is_old(self._oldest_ms())):
            self._forgotten_ms = max(self._forgotten_ms, self._oldest_ms())
            del self._counts[next(iter(self._counts))]
        return True

    def _oldest_ms(self) -> int:
        return _made_ms(_parts(next(iter(self._counts)))[0])

    def _is_old(self, made_ms: int) -> bool:
        return not 0 <= self._clock() * 1000 - made_ms + 1 <= LIFETIME_S * 1000

    def _mac(self, stamp: bytes, peer: str) -> bytes:
        return hmac.new(self._secret, stamp + peer.encode(), hashlib.sha256).digest()[:_MAC_BYTES]


def _parts(nonce: str) -> tuple[bytes, bytes]:
    """Stamp and MAC; less than a stamp where it is none of ours."""
    try:
        decoded = base64.b64decode(nonce, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b"", b""
    return decoded[: _STAMP.size], decoded[_STAMP.size :]


def _made_ms(stamp: bytes) -> int:
    made_ms: int = _STAMP.unpack(stamp)[0]
    return made_ms
