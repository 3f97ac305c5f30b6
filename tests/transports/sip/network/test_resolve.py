from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.network.resolve import ServerRecord, addresses_of, in_order
from rtc_server.transports.sip.network.target import Target


class FakeResolver:
    """DNS of a dictionary."""

    def __init__(
        self,
        servers: dict[str, list[ServerRecord]] | None = None,
        addresses: dict[str, list[str]] | None = None,
    ) -> None:
        self._servers = servers or {}
        self._addresses = addresses or {}
        self.asked: list[str] = []

    async def servers(self, name: str) -> Sequence[ServerRecord]:
        self.asked.append(name)
        return self._servers.get(name, [])

    async def addresses(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host not in self._addresses:
            raise OSError("no such name")
        return self._addresses[host]


async def _found(target: Target, resolver: FakeResolver) -> list[Address]:
    return await addresses_of(target, resolver, random.Random(1))


async def test_an_address_is_asked_of_nobody() -> None:
    resolver = FakeResolver()
    assert await _found(Target("udp", "192.0.2.1"), resolver) == [("192.0.2.1", 5060)]
    assert await _found(Target("tls", "2001:db8::1"), resolver) == [("2001:db8::1", 5061)]
    assert await _found(Target("tcp", "192.0.2.1", 5080), resolver) == [("192.0.2.1", 5080)]
    assert not resolver.asked


async def test_a_port_rules_out_srv() -> None:
    resolver = FakeResolver(addresses={"sip.example.com": ["192.0.2.1", "2001:db8::1"]})
    found = await _found(Target("tcp", "sip.example.com", 5080), resolver)
    assert found == [("192.0.2.1", 5080), ("2001:db8::1", 5080)]
    assert resolver.asked == ["sip.example.com"]


@pytest.mark.parametrize(("transport", "service"), [("udp", "_sip._udp"), ("tcp", "_sip._tcp"), ("tls", "_sips._tcp")])
async def test_srv_names_hosts_and_ports_in_order_of_priority(transport: str, service: str) -> None:
    records = [ServerRecord(20, 0, "b.example.com", 5090), ServerRecord(10, 0, "a.example.com", 5080)]
    resolver = FakeResolver(
        {f"{service}.example.com": records},
        {"a.example.com": ["192.0.2.1", "192.0.2.2"], "b.example.com": ["192.0.2.3"]},
    )
    found = await _found(Target(transport, "example.com"), resolver)  # type: ignore[arg-type]
    assert found == [("192.0.2.1", 5080), ("192.0.2.2", 5080), ("192.0.2.3", 5090)]


async def test_without_srv_the_address_and_the_usual_port_are_taken() -> None:
    resolver = FakeResolver(addresses={"example.com": ["192.0.2.1"]})
    assert await _found(Target("udp", "example.com"), resolver) == [("192.0.2.1", 5060)]
    assert await _found(Target("tls", "example.com"), resolver) == [("192.0.2.1", 5061)]


async def test_a_server_whose_name_is_gone_is_passed_over() -> None:
    records = [ServerRecord(10, 0, "gone.example.com", 5060), ServerRecord(20, 0, "b.example.com", 5060)]
    resolver = FakeResolver({"_sip._udp.example.com": records}, {"b.example.com": ["192.0.2.3"]})
    assert await _found(Target("udp", "example.com"), resolver) == [("192.0.2.3", 5060)]


async def test_a_service_that_is_said_not_to_exist_is_not_looked_for_elsewhere() -> None:
    resolver = FakeResolver({"_sip._udp.example.com": [ServerRecord(0, 0, "", 0)]}, {"example.com": ["192.0.2.1"]})
    with pytest.raises(OSError, match="no such service"):
        await _found(Target("udp", "example.com"), resolver)


async def test_a_name_without_an_address_is_an_error() -> None:
    with pytest.raises(OSError):
        await _found(Target("udp", "example.com"), FakeResolver())
    with pytest.raises(OSError, match="no address"):
        await _found(Target("udp", "example.com"), FakeResolver(addresses={"example.com": []}))


def test_weights_share_the_load_within_a_priority() -> None:
    chance = random.Random(7)
    records = [ServerRecord(1, 10, "light", 1), ServerRecord(1, 30, "heavy", 1), ServerRecord(2, 99, "spare", 1)]
    orders = [[record.host for record in in_order(records, chance)] for _ in range(1000)]
    assert all(order[2] == "spare" and set(order[:2]) == {"light", "heavy"} for order in orders)
    assert 680 < Counter(order[0] for order in orders)["heavy"] < 820


def test_records_without_weights_all_get_their_turn_last_or_first() -> None:
    records = [ServerRecord(1, 0, name, 1) for name in "abc"]
    assert {record.host for record in in_order(records, random.Random(1))} == set("abc")
