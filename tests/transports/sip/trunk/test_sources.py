from __future__ import annotations

from rtc_server.transports.sip.trunk import sources
from rtc_server.transports.sip.trunk.sources import Source, Sources


def test_source_that_asks_too_much_is_not_heard_until_it_asks_less() -> None:
    source = Source()
    heard = sum(source.allow_request(now=0.0) for _ in range(1000))
    assert heard == sources.REQUESTS_AT_ONCE
    assert not source.allow_request(now=0.01)
    assert source.allow_request(now=1.0)


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
    assert source.waits(now=10.9) and not source.allow_request(now=10.9)
    assert not source.waits(now=11.0) and source.allow_request(now=11.0)


def test_right_password_ends_the_wait() -> None:
    source = Source()
    for _ in range(sources.FAILURES_FREE + 3):
        source.fail(now=0.0)
    source.succeed("branch")
    assert source.allow_request(now=0.0)
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
    table.prove("192.0.2.1", "branch")
    table.prove("192.0.2.1", "branch")
    for number in range(2 * sources.MAX_SOURCES):
        table.of(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert table.of("192.0.2.1") is proven
    assert (proven.trunk, table.of("10.0.0.1").trunk) == ("branch", None)
    for number in range(2 * sources.MAX_SOURCES):
        table.prove(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "other")
    assert table.of("192.0.2.1").trunk is None
    assert len(table) <= 2 * sources.MAX_SOURCES


def test_network_of_one_ipv6_host_is_one_source() -> None:
    table = Sources()
    assert table.of("2001:db8::1") is table.of("2001:db8::ffff:1")
    assert table.of("2001:db8::1") is not table.of("2001:db8:0:1::1")
    assert table.of("::ffff:192.0.2.1") is table.of("192.0.2.1")
    assert table.of("fe80::1%eth0") is table.of("fe80::2%eth0")


def test_messages_of_all_strangers_have_a_limit_that_does_not_count_for_who_is_known() -> None:
    table = Sources()
    table.prove("192.0.2.1", "branch")
    strangers = [table.of(f"10.0.{number >> 8}.{number & 255}") for number in range(1000)]
    assert sum(table.allow_message(source, now=0.0) for source in strangers) == sources.ALL_MESSAGES_AT_ONCE
    known = table.of("192.0.2.1")
    assert sum(table.allow_message(known, now=0.0) for _ in range(1000)) == sources.MESSAGES_AT_ONCE
    assert table.allow_message(strangers[-1], now=1.0)


def test_answers_to_all_have_a_limit() -> None:
    table = Sources()
    assert sum(table.allow_answer(now=0.0) for _ in range(1000)) == sources.ALL_ANSWERS_AT_ONCE
    assert sum(table.allow_answer(now=1.0) for _ in range(1000)) == sources.ALL_ANSWERS_PER_S
