"""The ICE-lite agent of one call (RFC 8445): answers checks, follows the newest nomination, proves who is who.

A lite agent never sends checks and is always controlled. It needs no candidates of its peer: whoever knows the
password of this call is the peer, wherever the check came from. Sans-IO: the mux parses, sends and keeps the tables.

**Which path.** The peer chooses, and may choose again at any time:

- The newest check with USE-CANDIDATE wins, at once and from whatever address: a phone that goes from Wi-Fi to the
  cellular network is followed by its first nomination there, with a restart or without.
- A check without USE-CANDIDATE never moves the path, except the very first check of all.
- Some clients nominate a pair once and never again. So authentic media from another address that a check has proved
  moves the path as well, once the selected one has brought neither a check nor authentic media for `PATH_SILENT_S`.
- A copy of a check from another address than the check's own counts for nothing: whoever listens in can send one.

**Restart** (RFC 8445 section 9). For a while there are two generations of credentials, each with its own key. Checks of
both are answered, media stays where it is, and the first nomination of the new generation ends the old one. Another
restart before that takes the place of the one that is pending.

The ICE role is nowhere a variable here. What aiortc calls `role` on an ICE transport decides the DTLS role only, and
lives in `dtls.DtlsChannel`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from aioice import stun

from rtc_server.transports.ratelimit import RateLimit

MAX_PATHS = 8
"""Addresses that one call may have at a time; the one unused for longest makes room, never the selected one."""

PATH_UNUSED_S = 30.0
"""An address without a check and without authentic media for so long is given up (RFC 7675 section 5.1: consent)."""

PATH_SILENT_S = 2.0

OWNER_SILENT_S = 15.0
"""An address that another call proved to be its own changes hands after so long without a check."""

CHECKS_PER_S = 50.0
CHECKS_BURST = 200.0
"""Answering a check costs about 0.1 ms; browsers send some ten at first and one in 2 to 6 s afterwards."""

REMEMBERED_CHECKS = 1024
"""Transaction ids that a call remembers: some 40 minutes of checks every 2.5 s, and 150 KB."""

Address = tuple[str, int]
"""(host, port): the key of a remote address, for both address families."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """ICE username fragment and password of one side (RFC 8839 section 5.4)."""

    ufrag: str
    pwd: str = field(repr=False)

    @classmethod
    def random(cls) -> Credentials:
        return cls(secrets.token_hex(8), secrets.token_hex(16))

    @property
    def key(self) -> bytes:
        """Of MESSAGE-INTEGRITY: the short-term credential mechanism (RFC 8489 section 9.1)."""
        return self.pwd.encode()


class DatagramSocket(Protocol):
    """One bound UDP socket of the mux. Never raises; a datagram that cannot be sent is lost and counted."""

    def send(self, data: bytes, destination: tuple[Any, ...]) -> None: ...


@dataclass(slots=True)
class Path:
    """A remote address and the socket that reaches it; `destination` is the full socket address (4-tuple on IPv6)."""

    address: Address
    destination: tuple[Any, ...]
    socket: DatagramSocket
    last_heard_s: float = 0.0
    """The last check, or authentic media."""

    def send(self, data: bytes) -> None:
        self.socket.send(data, self.destination)


@dataclass(slots=True)
class Released:
    """What a call gives up of the mux's tables."""

    addresses: list[Address] = field(default_factory=list)
    ufrags: list[str] = field(default_factory=list)


class IceAgent:
    """Credentials and paths of one call.

    Args:
        credentials: ours, as in the answer.
        on_datagram: gets every datagram that is not STUN from an address that a check has proved. Returns True for
            media that authenticates.
        on_first_check: called once, at the first valid check: DTLS may start, nomination need not be awaited.
    """

    role_conflict: ClassVar[str] = "ICE-CONTROLLED"
    """The attribute by which a peer claims the role that is ours."""

    def __init__(
        self, credentials: Credentials, on_datagram: Callable[[bytes], bool], on_first_check: Callable[[], None]
    ) -> None:
        self.on_datagram = on_datagram
        self.paths: dict[Address, Path] = {}
        self.selected: Path | None = None
        self.path_switches = 0
        self.last_check_s: float | None = None
        """When the last authenticated check came; None before the first one."""
        self._generations = [credentials]
        self._on_first_check = on_first_check
        self._checked = False
        self._checks = RateLimit(CHECKS_PER_S, CHECKS_BURST)
        self._first_came_from: dict[bytes, Address] = {}
        """By transaction id, oldest first."""

    @property
    def credentials(self) -> Credentials:
        """Of the newest answer."""
        return self._generations[-1]

    @property
    def ufrags(self) -> tuple[str, ...]:
        """What checks may be addressed to: one, or two while a restart is pending."""
        return tuple(item.ufrag for item in self._generations)

    def restart(self, credentials: Credentials) -> Released:
        """Answer checks of these credentials as well, and of these alone from their first nomination on."""
        released = Released(ufrags=[item.ufrag for item in self._generations[1:]])
        self._generations[1:] = [credentials]
        return released

    def authenticates(self, request: stun.Message) -> bool:
        """MESSAGE-INTEGRITY made with our password of the generation that the check is addressed to."""
        credentials = self._addressed(request)
        return credentials is not None and request.check_message_integrity(credentials.key)

    def is_replayed(self, request: stun.Message, address: Address) -> bool:
        """Remember an authenticated check from `address`. True for a copy of one that came from another address.

        A peer takes a new transaction id for every check, unless it sends the same bytes from the same address once
        more (RFC 8489 section 5). The first address that an id came from counts as the check's own. So a listener whose
        copy is delivered before the original owns that one check, and the original counts for nothing; the next check
        has another id.
        """
        first = self._first_came_from.setdefault(request.transaction_id, address)
        if len(self._first_came_from) > REMEMBERED_CHECKS:
            del self._first_came_from[next(iter(self._first_came_from))]
        return first != address

    def may_check(self, now: float) -> bool:
        """False while the peer sends more checks than any honest one does."""
        return self._checks.allow(now)

    def answer(self, request: stun.Message, path: Path, now: float) -> tuple[stun.Message, Released]:
        """Handle an authenticated check that came over `path`.

        Returns: the signed response, and what this call gives up: the oldest address when there are too many, the old
        ufrag when this check has ended it.
        """
        credentials = self._addressed(request)
        assert credentials is not None, "not authenticated"
        self.last_check_s = now
        if self.role_conflict in request.attributes:
            # RFC 8445 section 7.3.1.1: both ends think that they have the same role. Ours follows from who is lite, so
            # the peer must switch: 487 makes it. Nothing else of such a check counts.
            return _response(request, credentials, {"ERROR-CODE": (487, "Role Conflict")}), Released()
        released = Released(addresses=self._remember(path, now))
        self._checked_by_peer(self.paths[path.address], credentials, "USE-CANDIDATE" in request.attributes, released)
        return _response(request, credentials, {"XOR-MAPPED-ADDRESS": path.address}), released

    def receive(self, data: bytes, address: Address, now: float) -> None:
        """A datagram that is not STUN, from one of `paths`."""
        authentic = self.on_datagram(data)
        path = self.paths.get(address)
        if not authentic or path is None:
            return
        path.last_heard_s = now
        selected = self.selected
        if selected is not None and selected is not path and now - selected.last_heard_s >= PATH_SILENT_S:
            self._select(path)

    def send(self, data: bytes) -> bool:
        """Send over the selected path. False while there is none."""
        if self.selected is None:
            return False
        self.selected.send(data)
        return True

    def close(self) -> None:
        """Send nothing any more. May be called twice."""
        self.selected = None

    def _checked_by_peer(self, path: Path, credentials: Credentials, nominated: bool, released: Released) -> None:
        if nominated or self.selected is None:
            self._select(path)
        if nominated:
            self._end_generations_before(credentials, released)

    def _end_generations_before(self, credentials: Credentials, released: Released) -> None:
        current = self._generations.index(credentials)
        released.ufrags += [item.ufrag for item in self._generations[:current]]
        del self._generations[:current]

    def _addressed(self, request: stun.Message) -> Credentials | None:
        ufrag = str(request.attributes.get("USERNAME", "")).partition(":")[0]
        return next((item for item in self._generations if item.ufrag == ufrag), None)

    def _remember(self, path: Path, now: float) -> list[Address]:
        """Returns: addresses that are given up."""
        known = self.paths.setdefault(path.address, path)
        known.last_heard_s = now
        spare = sorted(
            (item for item in self.paths.values() if item is not self.selected and item is not known),
            key=lambda item: item.last_heard_s,
        )
        too_many = len(self.paths) - MAX_PATHS
        given_up = [
            item.address
            for place, item in enumerate(spare)
            if place < too_many or now - item.last_heard_s > PATH_UNUSED_S
        ]
        for address in given_up:
            del self.paths[address]
        return given_up

    def _select(self, path: Path) -> None:
        previous, self.selected = self.selected, path
        if previous is not None and previous is not path:
            self.path_switches += 1
        if not self._checked:
            self._checked = True
            self._on_first_check()


def _response(request: stun.Message, credentials: Credentials, attributes: dict[str, Any]) -> stun.Message:
    kind = stun.Class.ERROR if "ERROR-CODE" in attributes else stun.Class.RESPONSE
    response = stun.Message(stun.Method.BINDING, kind, request.transaction_id, attributes)
    response.add_message_integrity(credentials.key)  # adds FINGERPRINT as well
    return response
