from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.media.rtcp import Bye, serialize
from rtc_server.media.rtp import RtpPacket
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.media.latch import (
    MAX_CANDIDATES,
    SILENT_S,
    UNDER_WAY_S,
    WINDOW_S,
    FormerStream,
    Latch,
    Stream,
    reachable,
)

PHONE: Address = ("198.51.100.7", 40_123)
PHONE_RTCP: Address = ("198.51.100.7", 40_124)
PRIVATE: Address = ("10.9.33.103", 14_264)
PRIVATE_RTCP: Address = ("10.9.33.103", 14_265)
PUBLIC: Address = ("203.0.113.9", 20_000)
PUBLIC_RTCP: Address = ("203.0.113.9", 20_001)
STRANGER: Address = ("192.0.2.66", 5555)
PCMU = 0


def packet(number: int, ssrc: int = 7, payload_type: int = PCMU, payload: bytes = bytes(160)) -> bytes:
    return RtpPacket(payload_type, number & 0xFFFF, number * 160, ssrc, payload).serialize()


def negotiated(
    latch: Latch,
    now: float = 0.0,
    rtp: Address | None = PRIVATE,
    rtcp: Address | None = PRIVATE_RTCP,
    *,
    authenticated: bool = False,
    muxed: bool = False,
    peer_host: str | None = PHONE[0],
) -> Latch:
    latch.negotiated(now, rtp, rtcp, {PCMU, 101}, authenticated=authenticated, muxed=muxed, peer_host=peer_host)
    return latch


def latched(source: Address = PHONE, now: float = 0.0) -> Latch:
    latch = negotiated(Latch(), now)
    for number in range(3):
        latch.admit(now + number * 0.02, source, packet(number))
    assert latch.source == source
    return latch


def test_public_address_of_the_description_is_sent_to_at_once_and_heard_at_once() -> None:
    latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC_RTCP)
    assert (latch.destination, latch.rtcp_destination) == (PUBLIC, PUBLIC_RTCP)
    assert latch.admit(0.0, PUBLIC, packet(1)) == (packet(1),)
    assert latch.source == PUBLIC


def test_private_address_of_a_peer_far_away_is_not_sent_to() -> None:
    latch = negotiated(Latch())
    assert latch.destination is None
    assert latch.rtcp_destination is None
    assert latch.admit(0.0, PRIVATE, b"") == ()


def test_private_address_of_a_neighbour_is_sent_to() -> None:
    assert negotiated(Latch(), peer_host="10.1.2.3").destination == PRIVATE
    assert negotiated(Latch(), peer_host=None).destination == PRIVATE


def test_phone_behind_nat_is_found_by_packets_that_fit_and_none_of_them_is_lost() -> None:
    latch = negotiated(Latch())
    assert [list(latch.admit(0.02 * n, PHONE, packet(n))) for n in range(3)] == [[], [], [packet(n) for n in range(3)]]
    assert latch.destination == PHONE
    assert latch.admit(0.06, PHONE, packet(3)) == (packet(3),)


def test_third_host_is_not_heard_once_the_phone_was_found() -> None:
    latch = latched()
    assert not any(latch.admit(1.0 + 0.001 * n, STRANGER, packet(n, ssrc=99)) for n in range(500))
    assert latch.destination == PHONE


def test_packets_that_do_not_fit_prove_nothing() -> None:
    latch, rng = negotiated(Latch()), random.Random(1)
    sprayed = [
        *(packet(rng.randrange(65_536), ssrc=n) for n in range(100)),
        *(packet(n, ssrc=5, payload_type=96) for n in range(10)),
        *(packet(2 * n) for n in range(10)),
        *(packet(n, payload=b"") for n in range(10)),
        *(rng.randbytes(rng.randrange(60)) for _ in range(100)),
    ]
    assert not any(latch.admit(0.1, STRANGER, data) for data in sprayed)
    assert latch.source is None


def test_sequence_numbers_that_wrap_fit() -> None:
    latch = negotiated(Latch())
    assert [len(latch.admit(0.1, PHONE, packet(n))) for n in (65_534, 65_535, 65_536)] == [0, 0, 3]


def test_any_host_may_prove_itself_in_the_first_seconds_only() -> None:
    latch = negotiated(Latch(), peer_host=None, rtp=None, rtcp=None)
    assert not any(latch.admit(WINDOW_S, STRANGER, packet(n)) for n in range(10))
    assert any(latch.admit(WINDOW_S - 0.1, STRANGER, packet(n)) for n in range(3))


def test_caller_who_was_silent_at_first_is_found_later_by_the_host_of_the_signalling() -> None:
    latch = negotiated(Latch())
    assert not any(latch.admit(120.0, STRANGER, packet(n)) for n in range(10))
    assert any(latch.admit(120.0, PHONE, packet(n)) for n in range(3))
    assert latch.destination == PHONE


@pytest.mark.parametrize(
    ("peer_host", "is_heard"), [("10.1.2.3", False), ("192.168.1.4", True), (PHONE[0], True), (None, True)]
)
def test_phone_with_a_private_address_may_be_behind_nat_unless_its_signalling_comes_from_the_same_network(
    peer_host: str | None, is_heard: bool
) -> None:
    latch = negotiated(Latch(), peer_host=peer_host)
    router = ("192.168.1.77", 40_123)
    assert any(latch.admit(0.02 * n, router, packet(n)) for n in range(10)) is is_heard
    assert latch.destination == (router if is_heard else PRIVATE)


def test_host_of_the_description_may_send_from_another_port() -> None:
    latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC_RTCP)
    other = (PUBLIC[0], 31_000)
    assert any(latch.admit(60.0, other, packet(n)) for n in range(3))
    assert latch.destination == other


def test_caller_who_can_be_reached_and_is_silent_is_neither_heard_by_strangers_nor_replaced_by_one() -> None:
    for peer_host in (PUBLIC[0], PHONE[0], None):
        latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC_RTCP, peer_host=peer_host)
        assert not any(latch.admit(0.02 * n, STRANGER, packet(n)) for n in range(100))
        assert latch.destination == PUBLIC
        negotiated(latch, 3.0, PUBLIC, PUBLIC_RTCP, peer_host=peer_host)
        assert not any(latch.admit(3.0 + 0.02 * n, STRANGER, packet(n)) for n in range(100))
        assert latch.destination == PUBLIC


def test_silent_caller_who_was_heard_on_another_port_is_not_replaced_behind_a_new_negotiation() -> None:
    latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC_RTCP, peer_host=None)
    other = (PUBLIC[0], 31_000)
    assert any(latch.admit(0.02 * n, other, packet(n)) for n in range(3))
    negotiated(latch, 6.0, PUBLIC, PUBLIC_RTCP, peer_host=None)
    assert not any(latch.admit(6.0 + SILENT_S + 0.02 * n, STRANGER, packet(n)) for n in range(100))
    assert latch.destination == other


def test_key_of_srtp_proves_any_host_even_beside_an_address_that_can_be_reached() -> None:
    latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC_RTCP, authenticated=True)
    assert latch.admit(0.1, STRANGER, packet(1)) == (packet(1),)
    latch.heard(0.1, STRANGER)
    assert latch.destination == STRANGER


def test_address_of_the_description_is_better_than_one_that_was_found() -> None:
    latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC_RTCP)
    for n in range(3):
        latch.admit(0.1, PHONE, packet(n))
    assert latch.source == PHONE
    assert latch.admit(0.2, PUBLIC, packet(1)) == (packet(1),)
    assert latch.destination == PUBLIC
    assert not any(latch.admit(0.3, PHONE, packet(n)) for n in range(10))


def test_source_does_not_change_again_before_a_new_negotiation() -> None:
    latch = latched()
    moved = (PHONE[0], 40_999)
    assert not any(latch.admit(5.0, moved, packet(n)) for n in range(10))
    negotiated(latch, 6.0)
    assert any(latch.admit(7.0, moved, packet(n)) for n in range(3))
    assert latch.destination == moved


def test_new_negotiation_does_not_take_the_stream_from_a_source_that_is_still_heard() -> None:
    latch = latched()
    negotiated(latch, 6.0)
    for n in range(50):
        assert latch.admit(6.0 + 0.02 * n, PHONE, packet(n)) == (packet(n),)
        assert latch.admit(6.01 + 0.02 * n, (PHONE[0], 40_999), packet(n, ssrc=8)) == ()
    assert latch.destination == PHONE


def test_new_negotiation_with_the_same_address_lets_no_third_host_in_while_the_caller_is_silent() -> None:
    latch = latched()
    negotiated(latch, 6.0)
    assert not any(latch.admit(6.0 + SILENT_S + 1, STRANGER, packet(n)) for n in range(10))


def test_another_address_in_a_new_description_is_used_at_once() -> None:
    latch = latched()
    negotiated(latch, 6.0, PUBLIC, PUBLIC_RTCP)
    assert latch.destination == PUBLIC
    assert latch.admit(6.1, PHONE, packet(9)) == ()


def say(latch: Latch, source: Address, begin_s: float, end_s: float, *, authenticated: bool = False) -> bool:
    """Whether anything of it was heard."""
    heard = False
    for number in range(round(begin_s * 50), round(end_s * 50)):
        if latch.admit(number / 50, source, packet(number)):
            heard = True
            if authenticated:
                latch.heard(number / 50, source)
    return heard


@pytest.mark.parametrize("authenticated", [False, True])
@pytest.mark.parametrize("late_s", [0.2, UNDER_WAY_S + 1])
@pytest.mark.parametrize(
    ("described", "peer_host", "old", "new"),
    [
        (PRIVATE, PHONE[0], PHONE, (PHONE[0], 41_000)),
        (PRIVATE, "192.0.2.1", PHONE, (PHONE[0], 41_000)),  # its signalling comes over a proxy
        (PUBLIC, PHONE[0], (PUBLIC[0], 31_000), (PUBLIC[0], 31_002)),
        (PUBLIC, PHONE[0], PUBLIC, (PUBLIC[0], PUBLIC[1] + 2)),
    ],
)
def test_caller_who_moves_to_another_port_is_heard_there_although_the_old_one_sends_until_it_knows(
    described: Address, peer_host: str, old: Address, new: Address, late_s: float, authenticated: bool
) -> None:
    latch = negotiated(Latch(), 0, described, None, authenticated=authenticated, peer_host=peer_host)
    assert say(latch, old, 0, 5, authenticated=authenticated)
    moved = (described[0], described[1] + 2)
    negotiated(latch, 5, moved, None, authenticated=authenticated, peer_host=peer_host)
    say(latch, old, 5, 5 + late_s, authenticated=authenticated)
    assert say(latch, new, 5 + late_s, 7 + late_s, authenticated=authenticated)
    assert latch.destination == new
    assert not say(latch, old, 7 + late_s, 9 + late_s)


def test_what_is_under_way_from_the_old_port_does_not_turn_our_audio_away_from_the_new_one() -> None:
    latch = negotiated(Latch(), rtp=PUBLIC, rtcp=None)
    assert say(latch, PUBLIC, 0, 5)
    moved = (PUBLIC[0], 20_100)
    negotiated(latch, 5, moved, None)
    assert not say(latch, PUBLIC, 5, 5 + UNDER_WAY_S)
    assert latch.destination == moved


def test_caller_who_describes_another_port_and_goes_on_from_the_old_one_is_heard_and_not_replaced() -> None:
    latch = latched()
    negotiated(latch, 5, (PRIVATE[0], PRIVATE[1] + 2), None)
    assert say(latch, PHONE, 5, 6)
    assert latch.destination == PHONE
    negotiated(latch, 7, (PRIVATE[0], PRIVATE[1] + 2), None)
    assert not say(latch, STRANGER, 8, 12)
    assert latch.destination == PHONE


def test_hold_without_an_address_keeps_the_source() -> None:
    latch = latched()
    negotiated(latch, 6.0, None, None)
    assert latch.destination == PHONE
    negotiated(latch, 60.0)
    assert latch.admit(60.0, PHONE, packet(50)) == (packet(50),)


def test_srtp_is_proved_by_its_keys_and_by_nothing_else() -> None:
    latch = negotiated(Latch(), authenticated=True)
    for n in range(10):
        assert latch.admit(0.02 * n, STRANGER, packet(n)) == (packet(n),)
    assert latch.source is None
    latch.heard(0.3, PHONE)
    assert latch.destination == PHONE
    assert latch.admit(0.4, STRANGER, packet(11)) == ()


def test_srtp_from_the_negotiated_address_needs_its_key_to_be_believed() -> None:
    latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC_RTCP, authenticated=True)
    assert latch.admit(0.0, PUBLIC, packet(1)) == (packet(1),)
    assert latch.source is None
    latch.heard(0.0, PUBLIC)
    assert latch.source == PUBLIC


def test_srtp_that_authenticates_late_and_from_anywhere_is_not_believed() -> None:
    latch = negotiated(Latch(), authenticated=True)
    latch.heard(WINDOW_S + 1, STRANGER)
    assert latch.source is None


def test_rtcp_follows_the_host_of_rtp_and_goes_where_it_comes_from() -> None:
    latch = latched()
    assert latch.rtcp_destination is None
    assert not latch.admits_rtcp(STRANGER)
    assert latch.admits_rtcp(PHONE_RTCP)
    latch.heard_rtcp(PHONE_RTCP)
    assert latch.rtcp_destination == PHONE_RTCP
    assert not latch.admits_rtcp((PHONE[0], 9))


def test_rtcp_of_another_host_is_forgotten_when_rtp_moves() -> None:
    latch = latched()
    latch.heard_rtcp(PHONE_RTCP)
    negotiated(latch, 6.0, PUBLIC, PUBLIC_RTCP)
    latch.admit(6.1, PUBLIC, packet(1))
    assert latch.rtcp_destination == PUBLIC_RTCP
    assert latch.admits_rtcp(PUBLIC_RTCP)
    assert not latch.admits_rtcp(PHONE_RTCP)


def test_rtcp_on_the_port_of_rtp_goes_where_rtp_goes() -> None:
    latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC, muxed=True)
    assert latch.rtcp_destination == PUBLIC
    latch = negotiated(Latch(), rtp=PRIVATE, rtcp=PRIVATE, muxed=True)
    for n in range(3):
        latch.admit(0.1, PHONE, packet(n))
    assert latch.rtcp_destination == PHONE


def test_it_is_known_who_has_named_the_host_that_was_found() -> None:
    latch = negotiated(Latch())
    assert not latch.is_found and latch.host_named_by is None
    assert latched(PHONE).is_found and latched(PHONE).host_named_by == "signalling"
    assert latched(STRANGER).is_found and latched(STRANGER).host_named_by is None
    for port, found in ((PUBLIC[1], False), (31_000, True)):
        latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC_RTCP)
        for n in range(3):
            latch.admit(0.1, (PUBLIC[0], port), packet(n))
        assert latch.is_found is found and latch.host_named_by == "description"


def test_stream_of_the_call_before_on_these_ports_is_not_taken_for_that_of_this_one() -> None:
    left_over = FormerStream(Stream(STRANGER, 99), until_s=5.0)
    latch = negotiated(Latch(left_over))
    assert not any(latch.admit(0.02 * n, STRANGER, packet(n, ssrc=99)) for n in range(100))
    heard = [latch.admit(2.0 + 0.02 * n, PHONE, packet(n)) for n in range(3)]
    assert latch.destination == PHONE and len(heard[2]) == 3


def test_phone_of_the_call_before_is_heard_when_it_calls_again_from_the_same_port() -> None:
    latch = negotiated(Latch(FormerStream(Stream(PHONE, 7), until_s=5.0)))
    assert [len(latch.admit(0.02 * n, PHONE, packet(n, ssrc=8))) for n in range(3)] == [0, 0, 3]
    named = negotiated(Latch(FormerStream(Stream(PUBLIC, 7), until_s=5.0)), rtp=PUBLIC, rtcp=PUBLIC_RTCP)
    assert named.admit(0.0, PUBLIC, packet(1))  # where it is told to come from, the same SSRC will do
    later = negotiated(Latch(FormerStream(Stream(PHONE, 7), until_s=5.0)))
    assert [len(later.admit(5.0 + 0.02 * n, PHONE, packet(n))) for n in range(3)] == [0, 0, 3]


def test_stream_that_is_heard_is_that_of_the_source_and_none_before_there_is_one() -> None:
    latch = negotiated(Latch())
    latch.admit(0.0, PHONE, packet(1))
    assert latch.stream is None
    latch = latched()
    latch.admit(0.1, PHONE, packet(3))
    latch.admit(0.1, STRANGER, packet(4, ssrc=99))
    assert latch.stream == Stream(PHONE, 7)
    latch.admit(0.2, PHONE, serialize([Bye((7,))]))  # RTCP on the same port
    assert latch.stream == Stream(PHONE, 7)
    latch.admit(0.3, PHONE, b"short")
    assert latch.stream is None


def test_candidates_are_bounded() -> None:
    latch = negotiated(Latch(), peer_host=None)
    for n in range(1000):
        latch.admit(0.1, ("192.0.2.66", n), packet(1))
    assert len(latch._candidates) <= MAX_CANDIDATES


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "224.0.0.5", "ff02::1", "255.255.255.255"])
def test_some_addresses_are_never_sent_to(host: str) -> None:
    assert not reachable(host, None)
    assert negotiated(Latch(), rtp=(host, 4000), rtcp=(host, 4001)).destination is None


@pytest.mark.parametrize("host", ["192.168.1.4", "172.20.0.1", "100.64.0.9", "127.0.0.1", "fd00::1", "fe80::1"])
def test_private_addresses_are_for_neighbours(host: str) -> None:
    assert not reachable(host, "203.0.113.1")
    assert reachable(host, "192.168.9.9")
    assert reachable("203.0.113.1", host)


@given(st.lists(st.tuples(st.sampled_from([PHONE, PUBLIC, STRANGER]), st.binary(max_size=40)), max_size=60))
def test_whatever_comes_is_given_back_as_it_came_or_not_at_all(datagrams: list[tuple[Address, bytes]]) -> None:
    latch = negotiated(Latch(), rtp=PUBLIC, rtcp=PUBLIC_RTCP)
    for n, (source, data) in enumerate(datagrams):
        assert set(latch.admit(0.02 * n, source, data)) <= {datagram for _, datagram in datagrams}
