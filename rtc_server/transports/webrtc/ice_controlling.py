"""The full, controlling ICE agent of one call, for a peer that is ICE-lite itself (RFC 8445 section 6.1.1).

Such a peer never sends a check, so we do: to each of its candidates, at once, after 50 ms, and doubling to 1 s, until
the first response that its password signs selects a path. All checks nominate. From then on one every `CONSENT_EVERY_S`
keeps the consent (RFC 7675); while it goes unanswered all candidates are tried again, and after `CONSENT_EXPIRES_S`
nothing is sent any more.

The offer says where to send, and nobody knows yet whether its author may. So to addresses that have not answered few
checks go out in all, whatever restarts there are and however many offers, and nothing in them is the author's but the
ufrag. A check that is held back goes out in a later round. A response counts only with a transaction id that is open,
from the address that the check went to, and with the right MESSAGE-INTEGRITY.

Sans-IO like `ice.IceAgent`, which it is to the mux and the connection. Left out: peer-reflexive candidates, switching
roles, freezing; a lite peer has no use for them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from aioice import stun

from rtc_server.transports.ratelimit import RateLimit
from rtc_server.transports.webrtc.flights import CallLater, Timer
from rtc_server.transports.webrtc.ice import Address, Credentials, IceAgent, Path, Released

FIRST_INTERVAL_S = 0.050
LAST_INTERVAL_S = 1.0
CONSENT_EVERY_S = 2.5
CONSENT_EXPIRES_S = 30.0

MAX_CANDIDATES = 8
"""Of those of the peer with the highest priority."""

UNPROVEN_CHECKS_BURST = 48
UNPROVEN_CHECKS_PER_S = 1.0
"""To all candidates together: enough for three of them in the 10 s that a peer has, and some 6 KB."""

ALL_UNPROVEN_CHECKS_BURST = 400
ALL_UNPROVEN_CHECKS_PER_S = 200.0
"""Of all calls together: some 25 KB a second. Once half of the burst is used up, a call gets one a round, so that who
names many candidates has no more of it than others."""

MAX_TRANSACTIONS = 64
"""Checks whose responses may still come; the oldest makes room."""

_PRIORITY = (110 << 24) | (65535 << 8) | 255
"""RFC 8445 section 7.1.1: that of a peer-reflexive candidate of component 1."""


@dataclass(frozen=True, slots=True)
class RemoteAgent:
    """A lite peer: its credentials, and where it can be reached, best first."""

    credentials: Credentials
    paths: Sequence[Path]


class ControllingAgent(IceAgent):
    """Finds the path and keeps it by checks of its own.

    Args:
        credentials, on_datagram, on_first_check: as of `IceAgent`; the first valid response counts as the first check.
        on_expired: called once, when the peer has not answered for `CONSENT_EXPIRES_S`.
        transactions: the mux's table of open checks; this agent puts at most `MAX_TRANSACTIONS` in.
        all_unproven_checks: what all calls together may send to addresses that have not answered.
        clock: monotonic seconds.
        call_later: as of the event loop.
    """

    role_conflict: ClassVar[str] = "ICE-CONTROLLING"

    def __init__(
        self,
        credentials: Credentials,
        on_datagram: Callable[[bytes], bool],
        on_first_check: Callable[[], None],
        *,
        on_expired: Callable[[], None],
        transactions: MutableMapping[bytes, ControllingAgent],
        all_unproven_checks: RateLimit,
        clock: Callable[[], float],
        call_later: CallLater,
    ) -> None:
        super().__init__(credentials, on_datagram, on_first_check)
        self._on_expired = on_expired
        self._transactions = transactions
        self._clock = clock
        self._call_later = call_later
        self._tie_breaker = secrets.randbits(64)
        self._open: dict[bytes, Path] = {}
        self._remote: RemoteAgent | None = None
        self._answered = False
        """The newest `_remote` has answered."""
        self._last_response_s = 0.0
        self._interval_s = FIRST_INTERVAL_S
        self._unproven_checks = RateLimit(UNPROVEN_CHECKS_PER_S, UNPROVEN_CHECKS_BURST)
        self._all_unproven_checks = all_unproven_checks
        self._timer: Timer | None = None

    def check(self, remote: RemoteAgent) -> None:
        """Begin to look for a path to this peer; after `restart`, to the peer's new generation.

        Until a path is found, what is selected so far stays in use.
        """
        self._forget_transactions()
        self._remote = RemoteAgent(remote.credentials, tuple(remote.paths[:MAX_CANDIDATES]))
        self._answered = False
        self._interval_s = FIRST_INTERVAL_S
        self._check_again()

    def accepts(self, response: stun.Message, address: Address) -> bool:
        """An answer to an open check, from where that went (RFC 8445 section 7.2.5.2.1), with the peer's signature."""
        path = self._open.get(response.transaction_id)
        return (
            path is not None
            and path.address == address
            and self._remote is not None
            and response.check_message_integrity(self._remote.credentials.key)
        )

    def on_response(self, response: stun.Message, path: Path, now: float) -> Released:
        """Handle an accepted response that came over `path`. Returns: what this call gives up of the mux's tables."""
        del self._open[response.transaction_id], self._transactions[response.transaction_id]
        if response.message_class != stun.Class.RESPONSE:
            return Released()  # 487: a lite peer cannot control, whatever it says
        looking = not self._answered or not self._consents(now)
        self.last_check_s = self._last_response_s = now
        released = Released(addresses=self._remember(path, now))
        if looking:
            self._answered = True
            self._select(self.paths[path.address])
            self._end_generations_before(self.credentials, released)
            self._schedule(CONSENT_EVERY_S)
        return released

    def close(self) -> None:
        super().close()
        self._forget_transactions()
        self._remote = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _checked_by_peer(self, path: Path, credentials: Credentials, nominated: bool, released: Released) -> None:
        """Answered, but the path is ours to choose."""

    def _check_again(self) -> None:
        """One round of checks, and the time of the next."""
        remote = self._remote
        assert remote is not None
        now = self._clock()
        if self.selected is not None and now - self._last_response_s >= CONSENT_EXPIRES_S:
            self.close()
            self._on_expired()
            return
        if self.selected is not None and self._answered and self._consents(now):
            interval_s, paths = CONSENT_EVERY_S, [self.selected]
        else:
            interval_s, paths = LAST_INTERVAL_S if self._answered else self._interval_s, list(remote.paths)
            self._interval_s = min(2 * self._interval_s, LAST_INTERVAL_S)
        self._schedule(interval_s)
        due, held_back = self._divide(paths, now)
        if held_back:
            # Else the best candidates would take every turn.
            self._remote = replace(remote, paths=(*held_back, *due))
        for path in due:
            self._send_check(path, remote)

    def _divide(self, paths: Sequence[Path], now: float) -> tuple[list[Path], list[Path]]:
        """What is checked in this round, and what the limits hold back for a later one."""
        own, of_all = self._unproven_checks, self._all_unproven_checks
        due: list[Path] = []
        held_back: list[Path] = []
        needed = 1.0
        for path in paths:
            if path.address in self.paths:
                due.append(path)
            elif own.ready(now) and of_all.ready(now, needed):
                own.allow(now)
                of_all.allow(now)
                needed = ALL_UNPROVEN_CHECKS_BURST / 2
                due.append(path)
            else:
                held_back.append(path)
        return due, held_back

    def _consents(self, now: float) -> bool:
        """The selected path is alive as far as we know: the last consent check but one has been answered."""
        return now - self._last_response_s < 2 * CONSENT_EVERY_S + FIRST_INTERVAL_S

    def _send_check(self, path: Path, remote: RemoteAgent) -> None:
        request = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
        request.attributes = {
            "USERNAME": f"{remote.credentials.ufrag}:{self.credentials.ufrag}",
            "PRIORITY": _PRIORITY,
            "ICE-CONTROLLING": self._tie_breaker,
            "USE-CANDIDATE": None,
        }
        request.add_message_integrity(remote.credentials.key)  # adds FINGERPRINT as well
        if len(self._open) >= MAX_TRANSACTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest], self._transactions[oldest]
        self._open[request.transaction_id] = path
        self._transactions[request.transaction_id] = self
        path.send(bytes(request))

    def _schedule(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._call_later(delay_s, self._check_again)

    def _forget_transactions(self) -> None:
        for transaction_id in self._open:
            del self._transactions[transaction_id]
        self._open.clear()
