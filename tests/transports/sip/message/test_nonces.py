"""Nonces: no memory before they are used, and a bounded one after."""

from __future__ import annotations

import base64

import pytest

from rtc_server.transports.sip.message import nonces
from rtc_server.transports.sip.message.nonces import ONCE, Nonces, NonceState


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_nonces_of_one_moment_differ() -> None:
    maker = Nonces(Clock(), b"s" * 16)
    assert len({maker.make() for _ in range(100)}) == 100


def test_nonce_is_fresh_for_its_lifetime() -> None:
    clock = Clock()
    maker = Nonces(clock, b"s" * 16)
    nonce = maker.make()
    for step_s, state in ((0.0, NonceState.FRESH), (59.9, NonceState.FRESH), (0.2, NonceState.STALE)):
        clock.now_s += step_s
        assert maker.state(nonce) is state


def test_nonce_from_the_future_is_stale() -> None:
    clock = Clock()
    maker = Nonces(clock, b"s" * 16)
    nonce = maker.make()
    clock.now_s -= 10.0
    assert maker.state(nonce) is NonceState.STALE


@pytest.mark.parametrize("nonce", ["", "x", "é", "A" * 44, "AAAA====", base64.b64encode(b"x" * 32).decode()])
def test_nonce_of_someone_else_is_foreign(nonce: str) -> None:
    assert Nonces(Clock(), b"s" * 16).state(nonce) is NonceState.FOREIGN


def test_changed_nonce_is_foreign() -> None:
    maker = Nonces(Clock(), b"s" * 16)
    nonce = maker.make()
    for index in range(len(nonce) - 2):
        other = "A" if nonce[index] != "A" else "B"
        assert maker.state(nonce[:index] + other + nonce[index + 1 :]) is NonceState.FOREIGN
    assert maker.state(nonce + "A") is NonceState.FOREIGN


def test_counts_rise() -> None:
    maker = Nonces(Clock(), b"s" * 16)
    nonce = maker.make()
    assert [maker.use(nonce, count) for count in (0, 1, 1, 5, 4, 6, ONCE, ONCE)] == [
        *(False, True, False, True, False, True, True, False)
    ]


def test_used_nonces_are_forgotten_when_they_are_old() -> None:
    clock = Clock()
    maker = Nonces(clock, b"s" * 16)
    for _ in range(1000):
        assert maker.use(maker.make(), 1)
        clock.now_s += 1.0
    assert len(maker._counts) <= nonces.LIFETIME_S + 2


def test_nonce_forgotten_for_want_of_room_serves_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nonces, "MAX_USED", 3)
    clock = Clock()
    maker = Nonces(clock, b"s" * 16)
    used = []
    for _ in range(5):
        used.append(maker.make())
        clock.now_s += 0.01
    late = maker.make()
    for nonce in used:
        assert maker.use(nonce, 1)
    assert [maker.state(nonce) for nonce in used] == [NonceState.STALE] * 2 + [NonceState.FRESH] * 3
    assert not maker.use(used[-1], 1)
    assert maker.state(late) is NonceState.FRESH
