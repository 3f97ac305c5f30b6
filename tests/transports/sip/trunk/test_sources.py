from __future__ import annotations

from rtc_server.transports.sip.trunk import sources
from rtc_server.transports.sip.trunk.sources import Source, Sources


def test_source_that_asks_too_much_is_not_heard_until_it_asks_less() -> None:
    source = Source()
    heard = sum(source.allow(now=0.0) for _ in range(1000))
    assert heard == sources.REQUESTS_AT_ONCE
    assert not source.allow(now=0.01)
    assert source.allow(now=1.0)


def test_wait_doubles_with_each_wrong_password_up_to_a_bound() -> None:
    source = Source()
    waits = [source.fail(now=0.0) for _ in range(20)]
    assert waits[: sources.FAILURES_FREE] == [0.0] * sources.FAILURES_FREE
    assert waits[sources.FAILURES_FREE :][:4] == [1.0, 2.0, 4.0, 8.0]
    assert max(waits) == sources.MAX_BACKOFF_S


def test_source_is_not_heard_while_it_waits() -> None:
    source = Source()
    for _ in range(sources.FAILURES_FREE + 1):
        source.fail(now=10.0)
    assert not source.allow(now=10.9)
    assert source.allow(now=11.0)


def test_right_password_ends_the_wait() -> None:
    source = Source()
    for _ in range(sources.FAILURES_FREE + 3):
        source.fail(now=0.0)
    source.succeed()
    assert source.allow(now=0.0)
    assert source.fail(now=0.0) == 0.0


def test_table_forgets_who_was_not_heard_of_for_longest() -> None:
    table = Sources()
    first, second = table.of("192.0.2.1"), table.of("192.0.2.2")
    for number in range(sources.MAX_SOURCES - 2):
        table.of(f"10.0.{number >> 8}.{number & 255}")
    assert table.of("192.0.2.1") is first
    table.of("10.99.0.1")
    assert len(table) == sources.MAX_SOURCES
    assert table.of("192.0.2.1") is first
    assert table.of("192.0.2.2") is not second


def test_who_has_shown_a_good_digest_is_not_forgotten_for_strangers() -> None:
    table = Sources()
    proven = table.of("192.0.2.1")
    table.prove("192.0.2.1")
    table.prove("192.0.2.1")
    for number in range(2 * sources.MAX_SOURCES):
        table.of(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert table.of("192.0.2.1") is proven
    assert table.is_proven("192.0.2.1") and not table.is_proven("10.0.0.1")
    for number in range(2 * sources.MAX_SOURCES):
        table.prove(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert not table.is_proven("192.0.2.1")
    assert len(table) <= 2 * sources.MAX_SOURCES


def test_network_of_one_ipv6_host_is_one_source() -> None:
    table = Sources()
    assert table.of("2001:db8::1") is table.of("2001:db8::ffff:1")
    assert table.of("2001:db8::1") is not table.of("2001:db8:0:1::1")
    assert table.of("::ffff:192.0.2.1") is table.of("192.0.2.1")
    assert table.of("fe80::1%eth0") is table.of("fe80::2%eth0")
