from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rtc_server.session.playback import PlaybackCursor


def test_without_acknowledgement_what_was_sent_was_heard() -> None:
    assert PlaybackCursor().heard_ms(800) == 800


def test_lag_of_the_client_is_subtracted_from_then_on() -> None:
    cursor = PlaybackCursor()
    cursor.acknowledge(600, sent_ms=800)
    assert cursor.heard_ms(2000) == 1800


def test_impossible_acknowledgement_is_ignored() -> None:
    cursor = PlaybackCursor()
    cursor.acknowledge(9000, sent_ms=800)
    assert cursor.heard_ms(800) == 800


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000))))
def test_heard_is_monotone_and_never_ahead_of_sent(acks: list[tuple[int, int]]) -> None:
    cursor, sent, last = PlaybackCursor(), 0, 0
    for ack, step in acks:
        sent += step
        cursor.acknowledge(ack, sent)
        heard = cursor.heard_ms(sent)
        assert last <= heard <= sent
        last = heard
