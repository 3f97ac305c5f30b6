from __future__ import annotations

from rtc_server.transports.websocket.pings import REMEMBERED, Pings


def test_an_answer_tells_when_its_ping_left_and_behind_how_much_audio() -> None:
    pings = Pings()
    payload = pings.next(10.0, 1920)
    answer = pings.answered(payload)
    assert answer is not None
    assert (answer.sent_s, answer.sent_samples) == (10.0, 1920)


def test_a_peer_may_answer_the_latest_ping_only() -> None:
    pings = Pings()
    first, second = pings.next(10.0, 0), pings.next(11.0, 1920)
    answer = pings.answered(second)
    assert answer is not None and answer.sent_samples == 1920
    assert pings.answered(first) is None


def test_pongs_that_nobody_asked_for_are_no_answers() -> None:
    pings = Pings()
    payload = pings.next(10.0, 0)
    assert pings.answered(b"") is None
    assert pings.answered(b"\xff" * 125) is None
    assert pings.answered(payload) is not None
    assert pings.answered(payload) is None


def test_unanswered_pings_are_forgotten_in_the_end() -> None:
    pings = Pings()
    first, *_, last = [pings.next(float(at_s), 0) for at_s in range(REMEMBERED + 1)]
    assert pings.answered(first) is None
    assert pings.answered(last) is not None
