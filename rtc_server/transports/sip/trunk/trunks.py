"""The SIP servers that calls come from and go to, as the settings describe them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rtc_server.transports.sip.hosts import ip_of
from rtc_server.transports.sip.negotiation.agreedmedia import MediaPolicy
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.trunk.numbers import NumberRule, fits_one
from rtc_server.transports.sip.trunk.patterns import Pattern

IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Login:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Trunk:
    name: str
    networks: tuple[IpNetwork, ...] = ()
    """Requests from here are this trunk's, without a password."""
    inbound: Login | None = None
    """What requests from elsewhere must prove to know."""
    target: Target | None = None
    """Where calls to this trunk go; None: it takes none."""
    username: str | None = None
    """With `password`, what we answer when the trunk challenges us."""
    password: str | None = field(default=None, repr=False)
    caller_id: str | None = None
    """The number that we call from, where the application names none."""
    dialable: tuple[Pattern, ...] = ()
    """Numbers that an application may call here."""
    media: MediaPolicy = field(default_factory=MediaPolicy)
    max_calls: int | None = None
    """At once, in both directions; None: no limit of its own."""
    refer: Literal["refuse", "accept"] = "refuse"
    """Whether the other end may transfer a call."""
    header_names: tuple[str, ...] = ()
    """Headers of the INVITE that become metadata of the call."""
    trusted: bool = False
    """Its P-Asserted-Identity is believed (RFC 3325)."""
    numbers: tuple[NumberRule, ...] = ()

    def rule_for(self, number: str) -> NumberRule | None:
        """The first rule that fits; None: nobody has this number."""
        return next((rule for rule in self.numbers if rule.pattern.matches(number)), None)

    def owns(self, host: str) -> bool:
        """Whether this host, an address literal or a name, is in its networks, or what its target names."""
        address = ip_of(host)
        if address is not None and any(address in network for network in self.networks):
            return True
        return self.target is not None and _same_host(host, self.target.host)

    def may_dial(self, number: str) -> bool:
        return self.target is not None and fits_one(self.dialable, number)


class Trunks:
    """All of them. Names, user names and networks are each one trunk's only. Immutable."""

    def __init__(self, trunks: Sequence[Trunk] = ()) -> None:
        self._trunks = tuple(trunks)
        self._named = {trunk.name: trunk for trunk in self._trunks}
        self._by_username = {trunk.inbound.username: trunk for trunk in self._trunks if trunk.inbound is not None}

    def __iter__(self) -> Iterator[Trunk]:
        return iter(self._trunks)

    def __len__(self) -> int:
        return len(self._trunks)

    def named(self, name: str) -> Trunk | None:
        return self._named.get(name)

    def by_username(self, username: str) -> Trunk | None:
        return self._by_username.get(username)

    def by_address(self, address: str) -> Trunk | None:
        """The trunk that sends from here: an IPv4 or IPv6 literal, as a socket names it."""
        found = ip_of(address)
        if found is None:
            return None
        return next((trunk for trunk in self._trunks for network in trunk.networks if found in network), None)


def _same_host(one: str, other: str) -> bool:
    return (ip_of(one) or one.lower()) == (ip_of(other) or other.lower())
