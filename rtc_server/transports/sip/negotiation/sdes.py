"""Keys for SRTP inside the session description (SDES, RFC 4568), as pylibsrtp takes them (RFC 3711, 7714)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pylibsrtp import Policy

OFFERED_SUITES = ("AES_CM_128_HMAC_SHA1_80", "AES_CM_128_HMAC_SHA1_32")
"""What everyone has, best first."""
MIN_LIFETIME_PACKETS = 1 << 20
"""Of a key: almost six hours at 50 packets a second. Keys are not changed while a call runs, so shorter ones are not
taken."""

_CRYPTO = re.compile(r"([0-9]{1,9})[ \t]+([!-~]{1,64})[ \t]+(?i:inline):([!-~]{1,256})((?:[ \t]+[!-~]{1,64}){0,8})")
_POWER = re.compile(r"2\^([0-9]{1,2})")


@dataclass(frozen=True, slots=True)
class Suite:
    """A crypto suite: how long master key and salt are together, and what pylibsrtp calls it."""

    key_and_salt_bytes: int
    srtp_profile: int


SUITES = {
    "AES_CM_128_HMAC_SHA1_80": Suite(16 + 14, Policy.SRTP_PROFILE_AES128_CM_SHA1_80),
    "AES_CM_128_HMAC_SHA1_32": Suite(16 + 14, Policy.SRTP_PROFILE_AES128_CM_SHA1_32),
    "AEAD_AES_128_GCM": Suite(16 + 12, Policy.SRTP_PROFILE_AEAD_AES_128_GCM),
    "AEAD_AES_256_GCM": Suite(32 + 12, Policy.SRTP_PROFILE_AEAD_AES_256_GCM),
}
"""RFC 4568 section 6.2 and RFC 7714 section 14.2. pylibsrtp has no AES_256_CM_HMAC_SHA1_80."""


@dataclass(frozen=True, slots=True)
class SrtpKey:
    """The key of one way. Two that are equal need no new SRTP context."""

    suite: str
    key_and_salt: bytes = field(repr=False)

    @property
    def srtp_profile(self) -> int:
        """For `pylibsrtp.Policy`, beside `key_and_salt`."""
        return SUITES[self.suite].srtp_profile


@dataclass(frozen=True, slots=True)
class SrtpKeys:
    """Both ways of a call: never one without the other."""

    send: SrtpKey
    receive: SrtpKey


@dataclass(frozen=True, slots=True)
class Crypto:
    """One `a=crypto` line."""

    tag: int
    key: SrtpKey

    @property
    def value(self) -> str:
        """What stands behind `a=crypto:`."""
        return f"{self.tag} {self.key.suite} inline:{base64.b64encode(self.key.key_and_salt).decode()}"


def new_key(suite: str, random_bytes: Callable[[int], bytes]) -> SrtpKey:
    """A key of ours; `random_bytes` must be fit for secrets."""
    return SrtpKey(suite, random_bytes(SUITES[suite].key_and_salt_bytes))


def usable(values: Iterable[str]) -> list[Crypto]:
    """The lines that we can do all of, best first: the order is the peer's (RFC 4568 section 5.1.2)."""
    return [crypto for value in values if (crypto := read_crypto(value)) is not None]


def read_crypto(value: str) -> Crypto | None:
    """What stands behind `a=crypto:`; None where it is malformed or asks for what is not done here.

    That is: other suites, several keys, master key identifiers, keys that end within a call, and session parameters
    that take protection away or change how keys are derived (RFC 4568 sections 6.1 and 6.3).
    """
    match = _CRYPTO.fullmatch(value)
    suite = SUITES.get(match[2].upper()) if match is not None else None
    if match is None or suite is None or not all(_may_be_ignored(parameter) for parameter in match[4].split()):
        return None
    key, _, lifetime = match[3].partition("|")
    decoded = _decoded(key)
    if decoded is None or len(decoded) != suite.key_and_salt_bytes or not _lasts(lifetime):
        return None
    return Crypto(int(match[1]), SrtpKey(match[2].upper(), decoded))


def _may_be_ignored(parameter: str) -> bool:
    # RFC 4568 sections 6.3.6 and 6.3.7: the window size is a hint, and a dash marks what need not be understood.
    return parameter.upper().startswith("WSH=") or parameter.startswith("-")


def _lasts(lifetime: str) -> bool:
    """A lifetime in packets, ``2^n`` or decimal, or none. A master key identifier has a colon, and does not fit."""
    power = _POWER.fullmatch(lifetime)
    if power is not None:
        return 1 << int(power[1]) >= MIN_LIFETIME_PACKETS
    if not lifetime:
        return True
    return lifetime.isascii() and lifetime.isdigit() and int(lifetime) >= MIN_LIFETIME_PACKETS


def _decoded(text: str) -> bytes | None:
    bare = text.rstrip("=")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
