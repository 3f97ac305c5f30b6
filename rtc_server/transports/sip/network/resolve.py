"""From a target to the addresses to try, in order (RFC 3263 section 4, RFC 2782)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rtc_server.transports.sip.flow import DEFAULT_PORT, Address, Transport
from rtc_server.transports.sip.hosts import is_address
from rtc_server.transports.sip.network.target import Target

MAX_SERVERS = 8
"""Of a name that are looked up, and of all addresses that are tried."""
_SERVICE: dict[Transport, str] = {"udp": "_sip._udp", "tcp": "_sip._tcp", "tls": "_sips._tcp"}


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """SRV. `host` is without a final dot; empty where the service is said not to exist."""

    priority: int
    weight: int
    host: str
    port: int


class Resolver(Protocol):
    """DNS, or what stands for it in a test."""

    async def servers(self, name: str) -> Sequence[ServerRecord]:
        """The SRV records of a name; none where there are none, or they cannot be had."""

    async def addresses(self, host: str) -> Sequence[str]:
        """IPv4 and IPv6 literals, the best first. Raises: OSError, TimeoutError."""


async def addresses_of(target: Target, resolver: Resolver, chance: random.Random) -> list[Address]:
    """Where `target` may be reached, the best first. Never empty.

    Raises: OSError where there is no such place; TimeoutError.
    """
    port = target.port or DEFAULT_PORT[target.transport]
    if is_address(target.host):
        return [(target.host, port)]
    if target.port is None:
        records = await resolver.servers(f"{_SERVICE[target.transport]}.{target.host}")
        if records:
            return await _addresses_of_servers(in_order(records, chance), resolver)
    return [(address, port) for address in await _looked_up(target.host, resolver)]


def in_order(records: Iterable[ServerRecord], chance: random.Random) -> list[ServerRecord]:
    """The lowest priority first; within one, by lot: a record with twice the weight comes first twice as often."""
    left = sorted(records, key=lambda record: (record.priority, record.weight))
    ordered: list[ServerRecord] = []
    while left:
        equals = [record for record in left if record.priority == left[0].priority]
        drawn = chance.randint(0, sum(record.weight for record in equals))
        for record in equals:
            drawn -= record.weight
            if drawn <= 0:
                break
        ordered.append(record)
        left.remove(record)
    return ordered


async def _addresses_of_servers(records: Sequence[ServerRecord], resolver: Resolver) -> list[Address]:
    found: list[Address] = []
    failure: OSError = OSError("the name's SRV record says that it has no such service")
    for record in records[:MAX_SERVERS]:
        if not record.host or not record.port:
            continue
        try:
            found += [(address, record.port) for address in await _looked_up(record.host, resolver)]
        except OSError as error:  # TimeoutError is one
            failure = error
    if not found:
        raise failure
    return list(dict.fromkeys(found))[:MAX_SERVERS]


async def _looked_up(host: str, resolver: Resolver) -> list[str]:
    if is_address(host):
        return [host]
    found = list(await resolver.addresses(host))[:MAX_SERVERS]
    if not found:
        raise OSError("the name has no address")
    return found
