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


def test_a_new_leg_counts_from_zero_and_the_conversation_goes_on() -> None:
    cursor = PlaybackCursor()
    cursor.acknowledge(600, sent_ms=800)
    cursor.end_leg(1000)
    assert cursor.heard_ms(0) == 800, "what was under way when the leg ended was heard by nobody"
    assert cursor.heard_ms(500) == 1300
    cursor.acknowledge(100, sent_ms=500)
    cursor.acknowledge(450, sent_ms=500)
    assert cursor.heard_ms(1000) == 1750


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000), st.booleans())))
def test_heard_is_monotone_and_never_ahead_of_sent(steps: list[tuple[int, int, bool]]) -> None:
    cursor, before, sent, last = PlaybackCursor(), 0, 0, 0
    for ack, step, new_leg in steps:
        if new_leg:
            cursor.end_leg(sent)
            before, sent = before + sent, 0
        sent += step
        cursor.acknowledge(ack, sent)
        heard = cursor.heard_ms(sent)
        assert last <= heard <= before + sent
        last = heard
