from __future__ import annotations

import random

import pytest

from rtc_server.transports.webrtc.remotecandidates import MAX_CANDIDATES, usable_candidates
from rtc_server.transports.webrtc.sdp import RemoteCandidate


def line(host: str, port: int = 3484, priority: int = 100, *, component: int = 1, transport: str = "udp") -> str:
    return f"1 {component} {transport} {priority} {host} {port} typ host generation 0"


def hosts(*values: str, allow_loopback: bool = False) -> list[str]:
    return [candidate.host for candidate in usable_candidates(values, allow_loopback=allow_loopback)]


def test_both_address_families_are_taken_highest_priority_first() -> None:
    values = [line("203.0.113.51", 3484, 7), line("2001:db8::51", 3485, 9), line("198.51.100.3", 1, 8)]
    assert usable_candidates(values, allow_loopback=False) == (
        RemoteCandidate("2001:db8::51", 3485, 9),
        RemoteCandidate("198.51.100.3", 1, 8),
        RemoteCandidate("203.0.113.51", 3484, 7),
    )


@pytest.mark.parametrize("typ", ["host", "srflx raddr 10.0.0.1 rport 9", "relay raddr 0.0.0.0 rport 0", "prflx"])
def test_every_type_of_candidate_is_a_place_to_send_to(typ: str) -> None:
    assert hosts(f"f 1 UDP 1 203.0.113.51 3484 typ {typ}") == ["203.0.113.51"]


@pytest.mark.parametrize(
    "value",
    [
        line("203.0.113.51", component=2),
        line("203.0.113.51", transport="tcp"),
        line("203.0.113.51", transport="ssltcp"),
        line("203.0.113.51", port=0),
        line("203.0.113.51", port=65536),
        line("203.0.113.51", priority=0),
        line("203.0.113.51", priority=2**32),
        line("b1a4ee06-7a87-4ee3-a1f3-6ab04b5dc2a0.local"),
        line("media.example.com"),
        line("0.0.0.0"),
        line("::"),
        line("224.0.0.251"),
        line("ff02::fb"),
        line("255.255.255.255"),
        line("169.254.169.254"),
        line("fe80::1"),
        line("fe80::1%eth0"),
        line("2001:db8::1%2"),
        line("::ffff:169.254.169.254"),
        line("::ffff:0.0.0.0"),
        line("203.0.113.051"),
        line("3405803827"),
        "1 1 udp 100 203.0.113.51 3484",
        "1 1 udp 100 203.0.113.51 3484 kind host",
        "1 1 udp -1 203.0.113.51 3484 typ host",
        "1 1 udp \u0661 203.0.113.51 3484 typ host",
        "",
    ],
)
def test_what_no_check_can_or_should_be_sent_to_is_passed_over(value: str) -> None:
    assert hosts(value, allow_loopback=True) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_taken_only_by_a_server_that_is_reached_there_itself(host: str) -> None:
    assert hosts(line(host)) == []
    assert len(hosts(line(host), allow_loopback=True)) == 1


def test_mapped_ipv4_address_is_the_ipv4_address() -> None:
    assert hosts(line("::ffff:203.0.113.51"), line("203.0.113.51")) == ["203.0.113.51"]


def test_duplicates_count_once_with_their_highest_priority() -> None:
    values = [line("203.0.113.51", priority=1), line("203.0.113.51", priority=5), line("203.0.113.51", priority=3)]
    assert usable_candidates(values, allow_loopback=False) == (RemoteCandidate("203.0.113.51", 3484, 5),)


def test_no_more_are_taken_than_the_limit_and_these_are_the_best() -> None:
    values = [line(f"203.0.113.{number}", priority=1000 + number) for number in range(200)]
    random.Random(3).shuffle(values)
    assert hosts(*values) == [f"203.0.113.{number}" for number in range(199, 199 - MAX_CANDIDATES, -1)]
