"""The ICE-lite agent of one call (RFC 8445): answers checks, follows the newest nomination, proves who is who.

A lite agent never sends checks and is always controlled. It needs no candidates of its peer: whoever knows the
password of this call is the peer, wherever the check came from. Sans-IO: the mux parses, sends and keeps the tables.

The ICE role is nowhere a variable here. What aiortc calls `role` on an ICE transport decides the DTLS role only, and
lives in `dtls.DtlsChannel`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from aioice import stun

from rtc_server.transports.webrtc.ratelimit import RateLimit

MAX_PATHS = 8
"""Addresses that one call may have at a time; the one unused for longest makes room, never the selected one."""

OWNER_SILENT_S = 15.0
"""An address that another call proved to be its own changes hands after so long without a check."""

CHECKS_PER_S = 50.0
CHECKS_BURST = 200.0
"""Answering a check costs about 0.1 ms; browsers send some ten at first and one in 2 to 6 s afterwards."""

Address = tuple[str, int]
"""(host, port): the key of a remote address, for both address families."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """ICE username fragment and password of one side (RFC 8839 section 5.4)."""

    ufrag: str
    pwd: str

    @classmethod
    def random(cls) -> Credentials:
        return cls(secrets.token_hex(8), secrets.token_hex(16))


class DatagramSocket(Protocol):
    """One bound UDP socket of the mux. Never raises; a datagram that cannot be sent is lost and counted."""

    def send(self, data: bytes, destination: tuple[Any, ...]) -> None: ...


@dataclass(slots=True)
class Path:
    """A remote address and the socket that reaches it; `destination` is the full socket address (4-tuple on IPv6)."""

    address: Address
    destination: tuple[Any, ...]
    socket: DatagramSocket
    last_check_s: float = 0.0

    def send(self, data: bytes) -> None:
        self.socket.send(data, self.destination)


class IceAgent:
    """Credentials and paths of one call.

    Args:
        on_datagram: gets every datagram that is not STUN from an address that a check has proved.
        on_first_check: called once, at the first valid check: DTLS may start, nomination need not be awaited.
    """

    def __init__(self, on_datagram: Callable[[bytes], None], on_first_check: Callable[[], None]) -> None:
        self.credentials = Credentials.random()
        self.on_datagram = on_datagram
        self._on_first_check = on_first_check
        self._key = self.credentials.pwd.encode()
        self._checks = RateLimit(CHECKS_PER_S, CHECKS_BURST)
        self.paths: dict[Address, Path] = {}
        self.selected: Path | None = None
        self.path_switches = 0
        self.last_check_s: float | None = None
        """When the last authenticated check came; None before the first one."""

    def authenticates(self, request: stun.Message) -> bool:
        """MESSAGE-INTEGRITY made with our password (RFC 8445 section 7.3)."""
        return request.check_message_integrity(self._key)

    def may_check(self, now: float) -> bool:
        """False while the peer sends more checks than any honest one does."""
        return self._checks.allow(now)

    def answer(self, request: stun.Message, path: Path, now: float) -> tuple[stun.Message, list[Address]]:
        """Handle an authenticated check that came over `path`.

        Returns: the signed response, and addresses that this call gives up because it has too many.
        """
        self.last_check_s = now
        if "ICE-CONTROLLED" in request.attributes:
            # RFC 8445 section 7.3.1.1: both ends think that they are controlled. A lite agent cannot switch, so the
            # peer must: 487 makes it controlling. Nothing else of such a check counts.
            return self._response(request, {"ERROR-CODE": (487, "Role Conflict")}), []
        released = self._remember(path, now)
        if self.selected is None or "USE-CANDIDATE" in request.attributes:
            self._select(self.paths[path.address])
        return self._response(request, {"XOR-MAPPED-ADDRESS": path.address}), released

    def send(self, data: bytes) -> bool:
        """Send over the selected path. False while there is none."""
        if self.selected is None:
            return False
        self.selected.send(data)
        return True

    def _remember(self, path: Path, now: float) -> list[Address]:
        known = self.paths.setdefault(path.address, path)
        known.last_check_s = now
        if len(self.paths) <= MAX_PATHS:
            return []
        spare = [item for item in self.paths.values() if item is not self.selected and item is not known]
        oldest = min(spare, key=lambda item: item.last_check_s)
        del self.paths[oldest.address]
        return [oldest.address]

    def _select(self, path: Path) -> None:
        previous, self.selected = self.selected, path
        if previous is None:
            self._on_first_check()
        elif previous is not path:
            self.path_switches += 1

    def _response(self, request: stun.Message, attributes: dict[str, Any]) -> stun.Message:
        kind = stun.Class.ERROR if "ERROR-CODE" in attributes else stun.Class.RESPONSE
        response = stun.Message(stun.Method.BINDING, kind, request.transaction_id, attributes)
        response.add_message_integrity(self._key)  # adds FINGERPRINT as well
        return response
