"""Answers the challenges to requests of ours (RFC 3261 section 22).

A digest of a password can be tried out at leisure by whoever gets it, so not everybody does. An INVITE goes where the
trunk's settings say: the realms that ask for a password there are the trunk's. Requests within a call go wherever the
other end has said: there only these realms get an answer.
"""

from __future__ import annotations

import re

from rtc_server.log import get_logger
from rtc_server.transports.sip.message import authparams, digest
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.trunk.callers import printable

MAX_CHALLENGES = 3
"""To one request: the proxy's, the server's, and one that says that a nonce was stale."""

log = get_logger(__name__)

_HEADERS = {401: ("WWW-Authenticate", "Authorization"), 407: ("Proxy-Authenticate", "Proxy-Authorization")}
CREDENTIALS = ("Authorization", "Proxy-Authorization")
_STALE = re.compile(r'\bstale\s*=\s*"?true', re.IGNORECASE)


MAX_REALM_CHARS = 64
MAX_REALMS = 16
"""Of one trunk; the one that was learnt first is forgotten."""


class Realms:
    """Which realms have asked for a password when a trunk was called. A trunk that was never called has none."""

    def __init__(self) -> None:
        self._of_trunk: dict[str, dict[str, None]] = {}

    def of(self, trunk: str) -> dict[str, None]:
        """To be looked at, and for `Credentials` to add to. `trunk`: its name in the settings."""
        return self._of_trunk.setdefault(trunk, {})


class Credentials:
    """Of one request, however often it is challenged.

    Args:
        realms: of the trunk whose password this is.
        learns: the request goes to the trunk itself: a realm that challenges it is added to them.
    """

    def __init__(
        self, username: str | None, password: str | None, realms: dict[str, None], *, learns: bool = False
    ) -> None:
        self._username = username
        self._password = password
        self._realms = realms
        self._learns = learns
        self._challenges = 0

    def answer(self, request: Request, response: Response) -> bool:
        """Put the answer to this 401 or 407 into `request`, which is then to be sent again with the next CSeq.

        False: there is none. We have no password, the challenge is malformed or of a realm that our password is not
        for, or our password is wrong: the same request was challenged before, and not because a nonce was stale.
        """
        challenged = _HEADERS.get(response.status)
        self._challenges += 1
        if challenged is None or self._username is None or self._password is None:
            return False
        asked, answered = challenged
        challenges = response.headers.all(asked)
        again = request.headers.get(answered) is not None
        if self._challenges > MAX_CHALLENGES or (again and not any(map(_STALE.search, challenges))):
            return False
        if not self._learns:
            challenges = self._of_known_realms(challenges)
        value = digest.answer(
            challenges, request.method, request.uri, self._username, self._password, request.body, nonce_count=1
        )
        if value is None:
            return False
        if self._learns:
            self._learn(value)
        request.headers.set(answered, value)
        return True

    def _of_known_realms(self, challenges: list[str]) -> list[str]:
        asked = list(authparams.digests(challenges))
        known = [params for params in asked if params.get("realm") in self._realms]
        if asked and not known:
            realm = printable(asked[0].get("realm", ""), MAX_REALM_CHARS)
            log.warning("password not given: it is asked for by a realm that is not the trunk's", realm=realm)
        return [authparams.format_challenge(params) for params in known]

    def _learn(self, value: str) -> None:
        """`value`: our answer. One to a challenge of several thousand characters is too long to be read again."""
        try:
            realm = authparams.parse(value)[0][1]["realm"]
        except ValueError:
            return
        self._realms[realm] = None
        if len(self._realms) > MAX_REALMS:
            del self._realms[next(iter(self._realms))]
