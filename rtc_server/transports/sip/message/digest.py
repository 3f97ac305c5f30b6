"""Digest authentication, both ends (RFC 3261 section 22, RFC 7616, RFC 8760). Sans-IO."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from rtc_server.transports.sip.message import authparams
from rtc_server.transports.sip.message.authparams import AuthParams
from rtc_server.transports.sip.message.nonces import ONCE, Nonces
from rtc_server.transports.sip.message.uri import SipUri

ALGORITHMS = ("SHA-256", "MD5")
"""Strongest first (RFC 8760 section 2.1). As a client we know the ``-sess`` kind of each too."""

_HASHES = {"sha-256": hashlib.sha256, "md5": hashlib.md5}
_SESSION = "-sess"
_NONCE_COUNT = re.compile(r"[0-9a-f]{8}", re.IGNORECASE)
_DIGITS = re.compile(r"[0-9a-f]+", re.IGNORECASE)


class Outcome(Enum):
    OK = auto()
    STALE = auto()
    """The nonce is no good, or no good any more: challenge again, with ``stale``. Says nothing of the password."""
    WRONG = auto()
    """The user or the password."""
    MALFORMED = auto()
    """Or for another number than the request."""
    OTHER_REALM = auto()
    """Meant for another server: as if it were not there."""


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    username: str = ""
    """Proven, if the outcome is OK; else what somebody says."""


class Challenger:
    """The server's end.

    Args:
        clock: monotonic seconds.
        secret: of the nonces.
        algorithms: what is offered, best first. baresip 1.0 gives up when it sees SHA-256 at all, and SIPp 3.6 looks at
            the first one only and knows MD5: for such peers it must be ``("MD5",)``.
    """

    def __init__(
        self, realm: str, clock: Callable[[], float], secret: bytes, algorithms: Sequence[str] = ALGORITHMS
    ) -> None:
        self._realm = realm
        self._nonces = Nonces(clock, secret)
        self._algorithms = tuple(algorithms)

    def challenge(self, peer: str, stale: bool = False) -> list[str]:
        """The values of the WWW-Authenticate headers of a 401, or the Proxy-Authenticate headers of a 407.

        Args:
            peer: where they are sent. Only from there the nonces are any good.
        """
        values = []
        for algorithm in self._algorithms:
            params = {"realm": self._realm, "nonce": self._nonces.make(peer), "algorithm": algorithm, "qop": "auth"}
            values.append(authparams.format_challenge({**params, "stale": "true"} if stale else params))
        return values

    def check(
        self, authorization: str, method: str, uri: str, password_of: Callable[[str], str | None], peer: str
    ) -> Verdict:
        """Whether an Authorization value proves who sent a request.

        The password is looked at only under a fresh nonce. With any other one could guess passwords without ever being
        WRONG, or be WRONG in the name of an address that is somebody else's. RFC 7616 section 3.3 wants no valid digest
        for ``stale`` any more, as RFC 2617 section 3.2.1 did.

        Args:
            uri: of the request. The digest may name the server only, as SIPp's does, but no other user than the request
                does; a proxy may have changed the host.
            password_of: None for a user that there is not.
            peer: where the request has come from.
        """
        try:
            params = _credentials(authorization)
        except ValueError:
            return Verdict(Outcome.MALFORMED)
        if params.get("realm") != self._realm:
            return Verdict(Outcome.OTHER_REALM)
        algorithm = params.get("algorithm", "MD5")
        if algorithm.lower() not in (known.lower() for known in self._algorithms) or not _is_meant(params["uri"], uri):
            return Verdict(Outcome.MALFORMED)
        nonce = params["nonce"]
        if not self._nonces.is_fresh(nonce, peer):
            return Verdict(Outcome.STALE)
        password = password_of(params["username"])
        # A user that there is not takes as long as a wrong password.
        expected = response_of(params, algorithm, method, password or "", b"")
        equal = hmac.compare_digest(expected, params["response"].lower())
        if password is None or not equal:
            return Verdict(Outcome.WRONG, params["username"])
        count = int(params["nc"], 16) if "qop" in params else ONCE
        if not self._nonces.use(nonce, count):
            return Verdict(Outcome.STALE)
        return Verdict(Outcome.OK, params["username"])


def answerable(values: list[str]) -> dict[str, AuthParams]:
    """By realm, in the order in which they ask: the strongest challenge of each that can be answered.

    Args:
        values: of all WWW-Authenticate or Proxy-Authenticate headers.
    """
    found: dict[str, AuthParams] = {}
    for params in filter(_is_answerable, authparams.digests(values)):
        known = found.setdefault(params["realm"], params)
        if _weakness(params) < _weakness(known):
            found[params["realm"]] = params
    return found


def answer(
    challenge: AuthParams,
    method: str,
    uri: str,
    username: str,
    password: str,
    body: bytes = b"",
    nonce_count: int = 1,
    *,
    cnonce: str | None = None,
) -> str:
    """The client's end: the value of the Authorization or Proxy-Authorization header.

    Args:
        challenge: one of `answerable`.
        nonce_count: how many requests have had this nonce, with this one.
        cnonce: None: a random one.
    """
    params = {
        "username": username,
        "realm": challenge["realm"],
        "nonce": challenge["nonce"],
        "uri": uri,
    }
    algorithm = challenge.get("algorithm", "MD5")
    if qop := _chosen_qop(challenge):
        params |= {"qop": qop, "cnonce": cnonce or secrets.token_hex(16), "nc": f"{nonce_count:08x}"}
    elif algorithm.lower().endswith(_SESSION):
        params["cnonce"] = cnonce or secrets.token_hex(16)
    params["response"] = response_of(params, algorithm, method, password, body)
    params |= {name: challenge[name] for name in ("algorithm", "opaque") if name in challenge}
    return authparams.format_credentials(params)


def response_of(params: AuthParams, algorithm: str, method: str, password: str, body: bytes) -> str:
    """RFC 7616 section 3.4.1, in lower case; without ``qop`` RFC 2069 section 2.1.2."""
    name = algorithm.lower()

    def digest(*parts: str) -> str:
        return _HASHES[name.removesuffix(_SESSION)](":".join(parts).encode()).hexdigest()

    secret = digest(params["username"], params["realm"], password)
    if name.endswith(_SESSION):
        secret = digest(secret, params["nonce"], params["cnonce"])
    qop = params.get("qop")
    request = digest(method, params["uri"])
    if qop is None:
        return digest(secret, params["nonce"], request)
    if qop.lower() == "auth-int":
        request = digest(method, params["uri"], _HASHES[name.removesuffix(_SESSION)](body).hexdigest())
    return digest(secret, params["nonce"], params["nc"], params["cnonce"], qop, request)


def _credentials(authorization: str) -> AuthParams:
    """Raises: ValueError for what is malformed, or lacks something."""
    (scheme, params), *others = authparams.parse(authorization)
    if others or scheme != "digest" or not {"username", "realm", "nonce", "uri", "response"} <= params.keys():
        raise ValueError("not the credentials of a digest")
    if _DIGITS.fullmatch(params["response"]) is None:
        raise ValueError("malformed response")
    if "qop" in params and (
        params["qop"].lower() != "auth" or "cnonce" not in params or not _NONCE_COUNT.fullmatch(params.get("nc", ""))
    ):
        raise ValueError("malformed qop, nc or cnonce")
    return params


def _is_meant(digest_uri: str, request_uri: str) -> bool:
    if digest_uri == request_uri:
        return True
    try:
        return SipUri.parse(digest_uri).user in (None, SipUri.parse(request_uri).user)
    except ValueError:
        return False


def _is_answerable(challenge: AuthParams) -> bool:
    known = challenge.get("algorithm", "MD5").lower().removesuffix(_SESSION) in _HASHES
    return known and {"realm", "nonce"} <= challenge.keys() and _chosen_qop(challenge) is not None


def _chosen_qop(challenge: AuthParams) -> str | None:
    """Empty: the server knows none. None: only such as we do not know."""
    if "qop" not in challenge:
        return ""
    offered = {qop.strip().lower() for qop in challenge["qop"].split(",")}
    return next((qop for qop in ("auth", "auth-int") if qop in offered), None)


def _weakness(challenge: AuthParams) -> int:
    return list(_HASHES).index(challenge.get("algorithm", "MD5").lower().removesuffix(_SESSION))
