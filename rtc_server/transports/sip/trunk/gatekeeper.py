"""Whose request is this? Asked for each one outside a dialog, before anything else is spent on it but its reading; and
of most messages of a flood not even that is.

A trunk is known by where its requests come from, else by a digest (RFC 3261 section 22). Everybody else is a stranger,
who gets no slot, no transaction and no state beside a place in a bounded table. ACK and CANCEL are never challenged:
they cannot answer (section 22.1).

What is counted is counted for each transport apart. Over UDP anybody may write any source address: who floods in the
name of another, or of thousands, takes from nobody who comes over a connection.
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
from rtc_server.transports.sip.flow import TRANSPORTS, Flow, Transport
from rtc_server.transports.sip.hosts import source_of
from rtc_server.transports.sip.message.digest import Challenger, Outcome
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.sparselog import SparseLog
from rtc_server.transports.sip.trunk.callers import callee_of
from rtc_server.transports.sip.trunk.sources import MAX_SOURCES, Source, Sources
from rtc_server.transports.sip.trunk.trunks import Trunk, Trunks

log = get_logger(__name__)

UnknownPolicy = Literal["drop", "challenge", "forbid"]

TRUNK_REQUESTS_PER_S = 200.0
TRUNK_REQUESTS_AT_ONCE = 400.0
"""Outside of calls."""
LINES_OF_EACH, LINES_OF_ALL = 3, 30
"""Of the log, a minute, about one stranger and about all of them."""
LINES_OF_LIMIT = 1
"""The same about the limits of one trunk, and of all strangers together, that are reached."""
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
        self._trunk_limits = {
            (trunk.name, transport): RateLimit(TRUNK_REQUESTS_PER_S, TRUNK_REQUESTS_AT_ONCE)
            for trunk in trunks
            for transport in TRANSPORTS
        }
        self._trunk_at = lru_cache(maxsize=MAX_SOURCES)(trunks.by_address)
        self._sources = {transport: Sources() for transport in TRANSPORTS}
        self._calls_log = SparseLog(log, LINES_OF_EACH, LINES_OF_ALL)
        self._waits_log = SparseLog(log, LINES_OF_EACH, LINES_OF_ALL)
        self._limits_log = SparseLog(log, LINES_OF_LIMIT, LINES_OF_ALL)

    def is_trunk(self, host: str) -> bool:
        """Whether a trunk is known by this address, an IPv4 or IPv6 literal."""
        return self._trunk_at(host) is not None

    def allow(self, host: str, transport: Transport) -> bool:
        """Whether one more message from there is read at all. It counts.

        An address that a trunk is known by is always read: whoever writes it is believed anyway, and a limit that
        datagrams in its name use up would only help to silence it. Calls that there are do not depend on it either:
        nobody asks for the hosts that they are with.
        """
        if self._trunk_at(host) is not None:
            return True
        now = self._clock()
        sources = self._sources[transport]
        source = sources.of(host)
        return sources.allow_message(source, now) or self._tell_limit("messages", source.trunk, transport, now)

    def identify(self, request: Request, flow: Flow) -> Identity:
        """`request` lies outside of all dialogs and transactions that there are."""
        now = self._clock()
        trunk = self._trunk_at(flow.remote[0])
        if trunk is not None:
            return Known(trunk) if self._allow_request_of(trunk, flow, now) else _ignored("sip_flood")
        if request.method in ("ACK", "CANCEL"):
            return _ignored("sip_stranger")
        source = self._sources[flow.transport].of(flow.remote[0])
        if not self._allow_request(source, flow, now):
            return _ignored("sip_flood")
        if request.method == "INVITE" and self._unknown != "challenge":
            answer = 403 if self._unknown == "forbid" else None
            self._tell(self._calls_log, flow, "SIP call of no trunk", now, request, answer=answer)
        if self._unknown == "drop":
            return _ignored("sip_stranger")
        if self._unknown == "challenge":
            proven = self._proven(request, flow, source, now)
            if isinstance(proven, Known):
                return proven
        else:
            proven = Refuse(403)
        return proven if self._allow_answer(flow, now) else _ignored("sip_flood")

    def allow_refusal(self, flow: Flow) -> bool:
        """Whether a request from there that cannot be read is answered at all. It counts."""
        now = self._clock()
        trunk = self._trunk_at(flow.remote[0])
        if trunk is not None:
            return self._allow_request_of(trunk, flow, now)
        if self._unknown == "drop":
            return False
        source = self._sources[flow.transport].of(flow.remote[0])
        return self._allow_request(source, flow, now) and self._allow_answer(flow, now)

    # ---- limits ------------------------------------------------------------------------------------------------------

    def _allow_request_of(self, trunk: Trunk, flow: Flow, now: float) -> bool:
        allowed = self._trunk_limits[trunk.name, flow.transport].allow(now)
        return allowed or self._tell_limit("requests", trunk.name, flow.transport, now)

    def _allow_request(self, source: Source, flow: Flow, now: float) -> bool:
        if source.allow_request(now):
            return True
        # Of who has to wait there is a line already.
        return not source.waits(now) and self._tell_limit("requests", source.trunk, flow.transport, now)

    def _allow_answer(self, flow: Flow, now: float) -> bool:
        return self._sources[flow.transport].allow_answer(now) or self._tell_limit("answers", None, flow.transport, now)

    def _tell_limit(self, of: str, trunk: str | None, transport: Transport, now: float) -> Literal[False]:
        """What is over a limit is dropped. `trunk`: None for strangers, of whom nothing else is written."""
        who = f"{transport} {trunk or ''}"
        self._limits_log.info(who, "SIP limit reached", now, of=of, trunk=trunk, transport=transport)
        return False

    # ---- digests -----------------------------------------------------------------------------------------------------

    def _proven(self, request: Request, flow: Flow, source: Source, now: float) -> Known | Challenge | Refuse:
        peer = source_of(flow.remote[0])
        for value in request.headers.all("Authorization")[:MAX_CREDENTIALS]:
            verdict = self._challenger.check(value, request.method, request.uri, self._password_of, peer)
            if verdict.outcome is Outcome.OK:
                return self._known(verdict.username, flow)
            if verdict.outcome is Outcome.STALE:
                return Challenge(tuple(self._challenger.challenge(peer, stale=True)))
            if verdict.outcome is Outcome.WRONG:
                self._fail(verdict.username, request, flow, source, now)
                # Not a new challenge: some phones would go on trying the same password.
                return Refuse(403)
            if verdict.outcome is Outcome.MALFORMED:
                return Refuse(400)
        if request.method not in ("INVITE", "OPTIONS"):
            return Refuse(403)
        return Challenge(tuple(self._challenger.challenge(peer)))

    def _known(self, username: str, flow: Flow) -> Known | Refuse:
        trunk = self._trunks.by_username(username)
        if trunk is None:
            return Refuse(403)
        self._sources[flow.transport].prove(flow.remote[0], trunk.name)
        return Known(trunk)

    def _fail(self, username: str, request: Request, flow: Flow, source: Source, now: float) -> None:
        wait_s, trunk = source.fail(now), self._trunks.by_username(username)
        # That it is not listened to any more must be told however many wrong digests have been.
        lines = self._waits_log if wait_s else self._calls_log
        of = {"trunk": None if trunk is None else trunk.name, "ignored_s": wait_s}
        self._tell(lines, flow, "wrong SIP digest", now, request, answer=403, **of)

    def _password_of(self, username: str) -> str | None:
        trunk = self._trunks.by_username(username)
        return None if trunk is None or trunk.inbound is None else trunk.inbound.password

    def _tell(self, lines: SparseLog, flow: Flow, event: str, now: float, request: Request, **fields: object) -> None:
        """Where it came from is not written: it is the address of a person, or of a victim."""
        who = f"{flow.transport} {source_of(flow.remote[0])}"
        lines.info(who, event, now, transport=flow.transport, callee=callee_of(request), **fields)


def _ignored(reason: str) -> Ignore:
    metrics.DATAGRAMS_DROPPED.labels(reason).inc()
    return Ignore()
