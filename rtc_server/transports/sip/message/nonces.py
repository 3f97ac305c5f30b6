"""Nonces that nobody has to remember before they are used (RFC 7616 section 5.4). Sans-IO."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
from collections.abc import Callable
from enum import Enum, auto

LIFETIME_S = 60.0
MAX_USED = 4096
"""Nonces whose counts are remembered. The oldest is forgotten first, and cannot be used any more."""
ONCE = 1 << 32
"""The count of a client that sends none: higher than any other, so its nonce serves once."""

_STAMP = struct.Struct("!Q8s")
_MAC_BYTES = 16


class NonceState(Enum):
    FRESH = auto()
    STALE = auto()
    """Made here, but too long ago."""
    FOREIGN = auto()
    """Not made here, or by a server that has been restarted since."""


class Nonces:
    """A nonce holds its time and a MAC over that, so a flood of challenges costs no memory.

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

    def make(self) -> str:
        stamp = _STAMP.pack(int(self._clock() * 1000), secrets.token_bytes(8))
        return base64.urlsafe_b64encode(stamp + self._mac(stamp)).decode()

    def state(self, nonce: str) -> NonceState:
        """Says nothing of its count: that is for `use`, once the client has proved to be somebody."""
        made_ms = self._made_ms(nonce)
        if made_ms is None:
            return NonceState.FOREIGN
        if self._is_old(made_ms) or (made_ms <= self._forgotten_ms and nonce not in self._counts):
            return NonceState.STALE
        return NonceState.FRESH

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
        return self._made_ms(next(iter(self._counts))) or 0

    def _is_old(self, made_ms: int) -> bool:
        return not 0 <= self._clock() * 1000 - made_ms + 1 <= LIFETIME_S * 1000

    def _made_ms(self, nonce: str) -> int | None:
        """None: not made here."""
        try:
            decoded = base64.b64decode(nonce, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        stamp, mac = decoded[: _STAMP.size], decoded[_STAMP.size :]
        if len(stamp) < _STAMP.size or not hmac.compare_digest(mac, self._mac(stamp)):
            return None
        made_ms: int = _STAMP.unpack(stamp)[0]
        return made_ms

    def _mac(self, stamp: bytes) -> bytes:
        return hmac.new(self._secret, stamp, hashlib.sha256).digest()[:_MAC_BYTES]
