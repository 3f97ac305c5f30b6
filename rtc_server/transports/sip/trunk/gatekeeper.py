"""Whose request is this? Asked for each one outside a dialog, before anything else is spent on it but its reading; and
of most messages of a flood not even that is.

A trunk is known by where its requests come from, else by a digest (RFC 3261 section 22). Everybody else is a stranger,
who gets no slot, no transaction and no state beside a place in a bounded table. ACK and CANCEL are never challenged:
they cannot answer (section 22.1).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rtc_server import metrics
from rtc_server.log import get_logger
from rtc_server.transports.ratelimit import RateLimit
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.hosts import source_of
from rtc_server.transports.sip.message.digest import Challenger, Outcome
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.trunk.callers import callee_of
from rtc_server.transports.sip.trunk.sources import MAX_SOURCES, Source, Sources
from rtc_server.transports.sip.trunk.sparselog import SparseLog
from rtc_server.transports.sip.trunk.trunks import Trunk, Trunks

log = get_logger(__name__)

UnknownPolicy = Literal["drop", "challenge", "forbid"]

TRUNK_REQUESTS_PER_S = 200.0
TRUNK_REQUESTS_AT_ONCE = 400.0
STRANGERS_PER_S = 200.0
STRANGERS_AT_ONCE = 400.0
"""Messages of them all that are read: reading one takes a good part of a millisecond."""
ANSWERS_PER_S = 200.0
"""To all strangers together: over UDP the source of a request may be a victim's address."""
ANSWERS_AT_ONCE = 400.0
LINES_OF_EACH, LINES_OF_ALL = 3, 30
"""Of the log, a minute, about one stranger and about all of them."""
MAX_CREDENTIALS = 4
"""Looked at in one request."""


@dataclass(frozen=True, slots=True)
class Known:
    trunk: Trunk


@dataclass(frozen=True, slots=True)
class Challenge:
    """401 with one WWW-Authenticate header for each of the values."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """A response without any state left behind."""

    status: int


@dataclass(frozen=True, slots=True)
class Ignore:
    """Not a byte goes back."""


Identity = Known | Challenge | Refuse | Ignore


class Gatekeeper:
    """Loop thread.

    Args:
        unknown: what a stranger's INVITE or OPTIONS gets. Digests are looked at with ``challenge`` only.
        clock: monotonic seconds.
        secret: of nonces.
        algorithms: what a digest may be made with, best first.
    """

    def __init__(
        self,
        trunks: Trunks,
        *,
        unknown: UnknownPolicy = "drop",
        realm: str = "rtc_server",
        secret: bytes,
        algorithms: Sequence[str] = ("MD5",),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trunks = trunks
        self._unknown = unknown
        self._challenger = Challenger(realm, clock, secret, algorithms)
        self._clock = clock
        self._trunk_limits = {trunk.name: RateLimit(TRUNK_REQUESTS_PER_S, TRUNK_REQUESTS_AT_ONCE) for trunk in trunks}
        self._trunk_at = lru_cache(maxsize=MAX_SOURCES)(trunks.by_address)
        self._sources = Sources()
        self._strangers = RateLimit(STRANGERS_PER_S, STRANGERS_AT_ONCE)
        self._answers = RateLimit(ANSWERS_PER_S, ANSWERS_AT_ONCE)
        self._sparse = SparseLog(log, LINES_OF_EACH, LINES_OF_ALL)

    def is_trunk(self, host: str) -> bool:
        """Whether a trunk is known by this address, an IPv4 or IPv6 literal."""
        return self._trunk_at(host) is not None

    def hears(self, host: str) -> bool:
        """Whether one more message from there is read at all. It counts.

        Calls that there are do not depend on it: nobody asks for the hosts that they are with.
        """
        if self._trunk_at(host) is not None:
            return True
        now = self._clock()
        heard = self._sources.of(host).hears(now)
        return heard and (self._sources.is_proven(host) or self._strangers.allow(now))

    def identify(self, request: Request, flow: Flow) -> Identity:
        """`request` lies outside of all dialogs and transactions that there are."""
        now = self._clock()
        address = flow.remote[0]
        trunk = self._trunk_at(address)
        if trunk is not None:
            return Known(trunk) if self._trunk_limits[trunk.name].allow(now) else _ignored("sip_flood")
        if request.method in ("ACK", "CANCEL"):
            return _ignored("sip_stranger")
        source = self._sources.of(address)
        if not source.allow(now):
            return _ignored("sip_flood")
        if request.method == "INVITE" and self._unknown != "challenge":
            self._tell(flow, "SIP call of no trunk", now, request, answer=403 if self._unknown == "forbid" else None)
        if self._unknown == "drop":
            return _ignored("sip_stranger")
        if self._unknown == "challenge":
            proven = self._proven(request, flow, source, now)
            if isinstance(proven, Known):
                return proven
        else:
            proven = Refuse(403)
        return proven if self._answers.allow(now) else _ignored("sip_flood")

    def may_refuse(self, flow: Flow) -> bool:
        """Whether a request from there that cannot be read is answered at all."""
        now = self._clock()
        trunk = self._trunk_at(flow.remote[0])
        if trunk is not None:
            return self._trunk_limits[trunk.name].allow(now)
        return self._unknown != "drop" and self._sources.of(flow.remote[0]).allow(now) and self._answers.allow(now)

    def _tell(self, flow: Flow, event: str, now: float, request: Request, **fields: object) -> None:
        """Where it came from is not written: it is the address of a person, or of a victim."""
        self._sparse.info(
            source_of(flow.remote[0]), event, now, transport=flow.transport, callee=callee_of(request), **fields
        )

    def _proven(self, request: Request, flow: Flow, source: Source, now: float) -> Known | Challenge | Refuse:
        for value in request.headers.all("Authorization")[:MAX_CREDENTIALS]:
            verdict = self._challenger.check(value, request.method, request.uri, self._password_of)
            if verdict.outcome is Outcome.OK:
                return self._known(verdict.username, flow.remote[0])
            if verdict.outcome is Outcome.STALE:
                return Challenge(tuple(self._challenger.challenge(stale=True)))
            if verdict.outcome is Outcome.WRONG:
                wait_s, trunk = source.fail(now), self._trunks.by_username(verdict.username)
                of = {"trunk": None if trunk is None else trunk.name, "ignored_s": wait_s}
                self._tell(flow, "wrong SIP digest", now, request, answer=403, **of)
                # Not a new challenge: some phones would go on trying the same password.
                return Refuse(403)
            if verdict.outcome is Outcome.MALFORMED:
                return Refuse(400)
        if request.method not in ("INVITE", "OPTIONS"):
            return Refuse(403)
        return Challenge(tuple(self._challenger.challenge()))

    def _known(self, username: str, address: str) -> Known | Refuse:
        trunk = self._trunks.by_username(username)
        if trunk is None:
            return Refuse(403)
        self._sources.prove(address)
        return Known(trunk)

    def _password_of(self, username: str) -> str | None:
        trunk = self._trunks.by_username(username)
        return None if trunk is None or trunk.inbound is None else trunk.inbound.password


def _ignored(reason: str) -> Ignore:
    metrics.DATAGRAMS_DROPPED.labels(reason).inc()
    return Ignore()
