"""Answers the challenges to requests of ours (RFC 3261 section 22).

A digest of a password can be tried out at leisure by whoever gets it, and a realm is public: anybody can ask in its
name. So it counts where a request goes, and only the trunk's own hosts get an answer. An INVITE goes where the trunk's
settings say; requests within a call, its ACK too, go wherever the other end has said.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rtc_server.log import get_logger
from rtc_server.transports.sip.message import authparams, digest
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.trunk.callers import printable
from rtc_server.transports.sip.trunk.trunks import Trunk

MAX_CHALLENGES = 3
"""To one request: the proxy's, the server's, and one that says that a nonce was stale."""
MAX_REALM_CHARS = 64
"""In the log."""

log = get_logger(__name__)

_HEADERS = {401: ("WWW-Authenticate", "Authorization"), 407: ("Proxy-Authenticate", "Proxy-Authorization")}
CREDENTIALS = ("Authorization", "Proxy-Authorization")
_STALE = re.compile(r'\bstale\s*=\s*"?true', re.IGNORECASE)


class Credentials:
    """Of one request, however often it is challenged.

    Args:
        trunk: whose password this is.
        is_of_trunk: whether a host, an address literal or a name, is one that this password is for.
    """

    def __init__(self, trunk: Trunk, is_of_trunk: Callable[[str], bool]) -> None:
        self._trunk = trunk
        self._is_of_trunk = is_of_trunk
        self._challenges = 0

    def answer(self, request: Request, response: Response, *hosts: str) -> bool:
        """Put the answer to this 401 or 407 into `request`, which is then to be sent again with the next CSeq.

        False: there is none. We have no password, or none for whom the request went to; the challenge is malformed; or
        our password is wrong: the same request was challenged before, and not because a nonce was stale.

        Args:
            hosts: whom it went to: the address, and the name that this was looked up for.
        """
        challenged = _HEADERS.get(response.status)
        self._challenges += 1
        username, password = self._trunk.username, self._trunk.password
        if challenged is None or username is None or password is None:
            return False
        asked, answered = challenged
        challenges = response.headers.all(asked)
        again = request.headers.get(answered) is not None
        if self._challenges > MAX_CHALLENGES or (again and not any(map(_STALE.search, challenges))):
            return False
        if not self._are_of_trunk(hosts):
            self._tell(challenges)
            return False
        value = digest.answer(challenges, request.method, request.uri, username, password, request.body, nonce_count=1)
        if value is None:
            return False
        request.headers.set(answered, value)
        return True

    def withhold(self, request: Request, *hosts: str) -> None:
        """Take out what these hosts are not to have, of a request that goes another way than when it was challenged."""
        if not self._are_of_trunk(hosts):
            for name in CREDENTIALS:
                request.headers.remove(name)

    def _are_of_trunk(self, hosts: tuple[str, ...]) -> bool:
        return any(self._is_of_trunk(host) for host in hosts)

    def _tell(self, challenges: list[str]) -> None:
        """Not where the request went: that may be the address of a person."""
        params = next(authparams.digests(challenges), {})
        log.warning(
            "password not given: a host asks for it that is none of the trunk's",
            trunk=self._trunk.name,
            realm=printable(params.get("realm", ""), MAX_REALM_CHARS),
            hint="if it is a proxy of the trunk, put its address into `addresses`",
        )
