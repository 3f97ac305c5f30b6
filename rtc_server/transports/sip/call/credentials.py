"""Answers the challenges to requests of ours (RFC 3261 section 22).

A digest of a password can be tried out at leisure by whoever gets it, and a realm is public: anybody can ask in its
name. So it counts where a request goes, and only the trunk's own hosts get an answer. An INVITE goes where the trunk's
settings say; requests within a call, its ACK too, go wherever the other end has said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rtc_server.log import get_logger
from rtc_server.transports.sip.message import authparams, digest
from rtc_server.transports.sip.message.authparams import AuthParams
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.trunk.callers import printable
from rtc_server.transports.sip.trunk.trunks import Trunk

MAX_CHALLENGES = 4
"""To one request: those of two proxies, the server's, and one that says that a nonce was stale."""
MAX_REALMS = 4
"""That are answered in one request."""
MAX_REALM_CHARS = 64
"""In the log."""

log = get_logger(__name__)

_HEADERS = {401: ("WWW-Authenticate", "Authorization"), 407: ("Proxy-Authenticate", "Proxy-Authorization")}
CREDENTIALS = ("Authorization", "Proxy-Authorization")


@dataclass(slots=True)
class _Asked:
    """What one realm asks for."""

    challenge: AuthParams
    answered: int = 0
    """How often its nonce was used."""

    @property
    def is_stale(self) -> bool:
        return self.challenge.get("stale", "").lower() == "true"


class Credentials:
    """Of one request, however often it is challenged: by every proxy on its way and by the server, each a realm of its
    own (section 22.3).

    Args:
        trunk: whose password this is.
        is_of_trunk: whether a host, an address literal or a name, is one that this password is for.
    """

    def __init__(self, trunk: Trunk, is_of_trunk: Callable[[str], bool]) -> None:
        self._trunk = trunk
        self._is_of_trunk = is_of_trunk
        self._challenges = 0
        self._asked: dict[tuple[str, str], _Asked] = {}
        """By the header that answers, and realm."""

    def answer(self, request: Request, response: Response, *hosts: str) -> bool:
        """Put the answers to this 401 or 407 into `request`, which is then to be sent again with the next CSeq. Those
        to other realms stay in it.

        False: there is none. We have no password, or none for whom the request went to; the challenge is malformed; or
        our password is wrong: the same realm has challenged this request before, and not because a nonce was stale.

        Args:
            hosts: whom it went to: the address, and the name that this was looked up for.
        """
        headers = _HEADERS.get(response.status)
        self._challenges += 1
        if headers is None or self._trunk.username is None or self._trunk.password is None:
            return False
        asking, answering = headers
        challenges = response.headers.all(asking)
        asked = {(answering, realm): _Asked(params) for realm, params in digest.answerable(challenges).items()}
        refused = any(place in self._asked and not new.is_stale for place, new in asked.items())
        if self._challenges > MAX_CHALLENGES or refused:
            return False
        if not self._are_of_trunk(hosts):
            self._tell(challenges)
            return False
        if not asked or len(self._asked | asked) > MAX_REALMS:
            return False
        self._asked |= asked
        self.renew(request)
        return True

    def renew(self, request: Request) -> None:
        """Put in the answers that have been asked for, before it is sent again: a server that counts how often its
        nonce is used takes no number twice (RFC 7616 section 3.4)."""
        username, password = self._trunk.username, self._trunk.password
        if username is None or password is None:
            return
        values: dict[str, list[str]] = {}
        for (header, _), asked in self._asked.items():
            asked.answered += 1
            value = digest.answer(
                asked.challenge, request.method, request.uri, username, password, request.body, asked.answered
            )
            values.setdefault(header, []).append(value)
        for header, answers in values.items():
            request.headers.set(header, *answers)

    def withhold(self, request: Request, *hosts: str) -> None:
        """Take out what these hosts are not to have, of a request that goes another way than when it was challenged."""
        if not self._are_of_trunk(hosts):
            self._asked.clear()
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
