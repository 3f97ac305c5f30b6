"""Answers the challenges to requests of ours (RFC 3261 section 22)."""

from __future__ import annotations

import re

from rtc_server.transports.sip.message import digest
from rtc_server.transports.sip.message.message import Request, Response

MAX_CHALLENGES = 3
"""To one request: the proxy's, the server's, and one that says that a nonce was stale."""

_HEADERS = {401: ("WWW-Authenticate", "Authorization"), 407: ("Proxy-Authenticate", "Proxy-Authorization")}
CREDENTIALS = ("Authorization", "Proxy-Authorization")
_STALE = re.compile(r'\bstale\s*=\s*"?true', re.IGNORECASE)


class Credentials:
    """Of one request, however often it is challenged."""

    def __init__(self, username: str | None, password: str | None) -> None:
        self._username = username
        self._password = password
        self._challenges = 0

    def answer(self, request: Request, response: Response) -> bool:
        """Put the answer to this 401 or 407 into `request`, which is then to be sent again with the next CSeq.

        False: there is none. We have no password, the challenge is malformed, or our password is wrong: the same
        request was challenged before, and not because a nonce was stale.
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
        value = digest.answer(
            challenges, request.method, request.uri, self._username, self._password, request.body, nonce_count=1
        )
        if value is None:
            return False
        request.headers.set(answered, value)
        return True
