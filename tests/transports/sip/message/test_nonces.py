"""Nonces: no memory before they are used, and a bounded one after."""

from __future__ import annotations

import base64

import pytest

from rtc_server.transports.sip.message import nonces
from rtc_server.transports.sip.message.nonces import ONCE, Nonces

PEER = "192.0.2.1"


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_nonces_of_one_moment_differ() -> None:
    maker = Nonces(Clock(), b"s" * 16)
    assert len({maker.make(PEER) for _ in range(100)}) == 100


def test_nonce_is_fresh_for_its_lifetime() -> None:
    clock = Clock()
    maker = Nonces(clock, b"s" * 16)
    nonce = maker.make(PEER)
    for step_s, fresh in ((0.0, True), (59.9, True), (0.2, False)):
        clock.now_s += step_s
        assert maker.is_fresh(nonce, PEER) is fresh


def test_nonce_from_the_future_is_not_fresh() -> None:
    clock = Clock()
    maker = Nonces(clock, b"s" * 16)
    nonce = maker.make(PEER)
    clock.now_s -= 10.0
    assert not maker.is_fresh(nonce, PEER)


@pytest.mark.parametrize("nonce", ["", "x", "é", "A" * 44, "AAAA====", base64.b64encode(b"x" * 32).decode()])
def test_nonce_that_was_not_made_here_is_not_fresh(nonce: str) -> None:
    assert not Nonces(Clock(), b"s" * 16).is_fresh(nonce, PEER)
    made_elsewhere = Nonces(Clock(), b"t" * 16).make(PEER)
    assert not Nonces(Clock(), b"s" * 16).is_fresh(made_elsewhere, PEER)


def test_nonce_is_for_whom_it_was_made_and_nobody_else() -> None:
    maker = Nonces(Clock(), b"s" * 16)
    nonce = maker.make(PEER)
    others = ["", "192.0.2.2", "192.0.2.10", "192.0.2.", "2001:db8::"]
    assert [maker.is_fresh(nonce, peer) for peer in others] == [False] * len(others)
    assert maker.is_fresh(nonce, PEER)


def test_changed_nonce_is_not_fresh() -> None:
    maker = Nonces(Clock(), b"s" * 16)
    nonce = maker.make(PEER)
    for index in range(len(nonce) - 2):
        other = "A" if nonce[index] != "A" else "B"
        assert not maker.is_fresh(nonce[:index] + other + nonce[index + 1 :], PEER)
    assert not maker.is_fresh(nonce + "A", PEER)


def test_counts_rise() -> None:
    maker = Nonces(Clock(), b"s" * 16)
    nonce = maker.make(PEER)
    assert [maker.use(nonce, count) for count in (0, 1, 1, 5, 4, 6, ONCE, ONCE)] == [
        *(False, True, False, True, False, True, True, False)
    ]


def test_used_nonces_are_forgotten_when_they_are_old() -> None:
    clock = Clock()
    maker = Nonces(clock, b"s" * 16)
    for _ in range(1000):
        assert maker.use(maker.make(PEER), 1)
        clock.now_s += 1.0
    assert len(maker._counts) <= nonces.LIFETIME_S + 2


def test_nonce_forgotten_for_want_of_room_serves_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nonces, "MAX_USED", 3)
    clock = Clock()
    maker = Nonces(clock, b"s" * 16)
    used = []
    for _ in range(5):
        used.append(maker.make(PEER))
        clock.now_s += 0.01
    late = maker.make(PEER)
    for nonce in used:
        assert maker.use(nonce, 1)
    assert [maker.is_fresh(nonce, PEER) for nonce in used] == [False] * 2 + [True] * 3
    assert not maker.use(used[-1], 1)
    assert maker.is_fresh(late, PEER)
