from __future__ import annotations

from typing import Any

import dns.asyncresolver
import dns.exception
import dns.resolver
import dns.rrset
import pytest

from rtc_server.transports.sip.network.dns import DnsResolver
from rtc_server.transports.sip.network.resolve import ServerRecord


def _answer(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    async def resolve(*_: object, **__: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(dns.asyncresolver, "resolve", resolve)


async def test_srv_records_come_without_the_final_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ("10 5 5080 a.example.com.", "0 0 0 .")
    _answer(monkeypatch, dns.rrset.from_text("_sip._udp.example.com.", 60, "IN", "SRV", *texts))
    found = await DnsResolver().servers("_sip._udp.example.com")
    assert set(found) == {ServerRecord(10, 5, "a.example.com", 5080), ServerRecord(0, 0, "", 0)}


@pytest.mark.parametrize(
    "error", [dns.resolver.NXDOMAIN(), dns.exception.Timeout(), dns.resolver.NoResolverConfiguration(), OSError()]
)
async def test_records_that_cannot_be_had_are_none(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    _answer(monkeypatch, error)
    assert not await DnsResolver().servers("_sip._udp.example.com")


async def test_names_are_found_as_the_system_finds_them() -> None:
    assert {"127.0.0.1", "::1"} & set(await DnsResolver().addresses("localhost"))


@pytest.mark.parametrize("name", ["a..b", "x" * 64 + ".example"])
async def test_what_is_no_name_is_an_error_of_the_network(name: str) -> None:
    resolver = DnsResolver()
    assert not await resolver.servers(f"_sip._udp.{name}")
    with pytest.raises(OSError):
        await resolver.addresses(name)
