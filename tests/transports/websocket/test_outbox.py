from __future__ import annotations

import math

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_SAMPLES
from rtc_server.session.worth import Worth
from rtc_server.transports.websocket.outbox import (
    AUDIO_SAMPLES,
    FADE_OUT_SAMPLES,
    STALL_S,
    WAITING_MESSAGES,
    WINDOW_SAMPLES,
    Outbox,
)
from tests.transports.websocket.fakes import frame

MOST_FRAMES = AUDIO_SAMPLES // FRAME_SAMPLES


def _drain(outbox: Outbox, now: float = 0.0) -> list[str | bytes | float]:
    """Everything that may be sent: messages, and of each frame its last sample."""
    items: list[str | bytes | float] = []
    while (item := outbox.next(now)) is not None:
        items.append(item if isinstance(item, str | bytes) else round(float(item[-1]), 3))
        outbox.sent(now)
    return items


# ---- order and bounds ------------------------------------------------------------------------------------------------


def test_audio_and_messages_leave_in_the_order_in_which_they_came() -> None:
    outbox = Outbox()
    outbox.write(0.0, frame(0.1))
    outbox.put(0.0, "word", Worth.WORDS)
    outbox.write(0.0, frame(0.2))
    outbox.put(0.0, b"bytes", Worth.REST)
    assert _drain(outbox) == [0.1, "word", 0.2, b"bytes"]
    assert outbox.is_empty


def test_a_frame_is_handed_over_as_it_is() -> None:
    outbox, pcm = Outbox(), frame(0.5)
    outbox.write(0.0, pcm)
    assert outbox.next(0.0) is pcm


def test_of_more_than_a_second_the_newest_stays() -> None:
    outbox = Outbox()
    for number in range(100):
        outbox.write(0.0, frame(number / 100))
    assert outbox.queued_samples <= AUDIO_SAMPLES
    assert _drain(outbox) == [number / 100 for number in range(100 - MOST_FRAMES, 100)]
    assert outbox.dropped_samples == (100 - MOST_FRAMES) * FRAME_SAMPLES
    assert outbox.queued_samples == 0


def test_dropped_audio_takes_no_message_with_it() -> None:
    outbox = Outbox()
    for number in range(MOST_FRAMES + 2):
        outbox.write(0.0, frame(number / 100))
        outbox.put(0.0, f"word {number}", Worth.WORDS)
    assert _drain(outbox)[:4] == ["word 0", "word 1", 0.02, "word 2"]


def test_audio_that_follows_on_a_drop_begins_with_a_fade() -> None:
    outbox = Outbox()
    for _ in range(MOST_FRAMES + 1):
        outbox.write(0.0, frame(0.5))
    first, second = outbox.next(0.0), outbox.next(0.0)
    assert isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    assert first[0] == 0.0 and first[-1] == 0.5 and np.all(np.diff(first) >= 0)
    assert np.all(second == 0.5)


@pytest.mark.parametrize("cheap", [Worth.FIGURES, Worth.WORDS])
def test_the_cheapest_message_goes_first_and_of_those_the_oldest(cheap: Worth) -> None:
    outbox = Outbox()
    outbox.put(0.0, "dear", Worth.REST)
    outbox.put(0.0, "cheap, old", cheap)
    outbox.put(0.0, "cheap, new", cheap)
    for number in range(WAITING_MESSAGES - 2):
        outbox.put(0.0, f"{number}", Worth.REST)
    assert outbox.message_room == 0
    messages = _drain(outbox)
    assert len(messages) == WAITING_MESSAGES
    assert messages[:2] == ["dear", "cheap, new"]
    assert outbox.dropped_messages == 1
    assert outbox.message_room == WAITING_MESSAGES


def test_a_cheap_message_does_not_push_out_a_dear_one() -> None:
    outbox = Outbox()
    for number in range(WAITING_MESSAGES):
        outbox.put(0.0, f"{number}", Worth.REST)
    outbox.put(0.0, "figures", Worth.FIGURES)
    assert "figures" not in _drain(outbox)


def test_room_for_a_frame_is_told() -> None:
    outbox = Outbox()
    for _ in range(MOST_FRAMES):
        assert outbox.audio_room
        outbox.write(0.0, frame(0.1))
    assert not outbox.audio_room
    outbox.next(0.0)
    assert outbox.audio_room


def test_the_longest_wait_is_told_once() -> None:
    outbox = Outbox()
    outbox.write(1.0, frame(0.1))
    outbox.write(1.5, frame(0.1))
    _drain(outbox, now=2.0)
    assert outbox.take_worst_wait_s() == 1.0
    assert outbox.take_worst_wait_s() == 0.0


# ---- how far ahead ---------------------------------------------------------------------------------------------------


def test_a_peer_that_never_answered_a_ping_gets_all_that_its_socket_takes() -> None:
    outbox = Outbox()
    for _ in range(100):
        outbox.write(0.0, frame(0.1))
        assert len(_drain(outbox)) == 1


def test_a_peer_that_answered_gets_two_seconds_ahead_of_its_answer() -> None:
    outbox = Outbox()
    outbox.acknowledge(0.0, 0)
    sent = 0
    for _ in range(100):
        outbox.write(0.0, frame(0.1))
        sent += len(_drain(outbox))
    assert sent == math.ceil(WINDOW_SAMPLES / FRAME_SAMPLES)
    outbox.acknowledge(1.0, FRAME_SAMPLES)
    assert len(_drain(outbox)) == 1


def test_words_do_not_overtake_audio_that_waits_for_an_answer() -> None:
    outbox = Outbox()
    outbox.acknowledge(0.0, 0)
    while outbox.audio_room:
        outbox.write(0.0, frame(0.1))
        _drain(outbox)
    outbox.put(0.0, "word", Worth.WORDS)
    assert outbox.next(0.0) is None


def test_an_older_answer_takes_nothing_back() -> None:
    outbox = Outbox()
    outbox.acknowledge(0.0, 50 * FRAME_SAMPLES)
    outbox.acknowledge(0.0, 0)
    sent = 0
    for _ in range(60):
        outbox.write(0.0, frame(0.1))
        sent += len(_drain(outbox))
    assert sent == 60


def test_at_the_end_nothing_waits_for_an_answer() -> None:
    outbox = Outbox()
    outbox.acknowledge(0.0, 0)
    for _ in range(40):
        outbox.write(0.0, frame(0.1))
        _drain(outbox)
    assert not outbox.is_empty
    outbox.finish()
    _drain(outbox)
    assert outbox.is_empty


# ---- who has stopped reading -----------------------------------------------------------------------------------------


def test_nothing_stalls_while_nothing_waits() -> None:
    outbox = Outbox()
    assert outbox.stalls_at_s == math.inf
    outbox.write(5.0, frame(0.1))
    _drain(outbox, now=6.0)
    assert outbox.stalls_at_s == math.inf


def test_patience_counts_from_when_something_began_to_wait() -> None:
    outbox = Outbox()
    outbox.write(5.0, frame(0.1))
    outbox.write(9.0, frame(0.1))
    assert outbox.stalls_at_s == 5.0 + STALL_S


def test_what_the_socket_has_not_taken_yet_waits_too() -> None:
    outbox = Outbox()
    outbox.put(5.0, "word", Worth.WORDS)
    outbox.next(5.0)
    assert outbox.stalls_at_s == 5.0 + STALL_S
    outbox.sent(7.0)
    assert outbox.stalls_at_s == math.inf


def test_whatever_is_taken_or_answered_gives_new_patience() -> None:
    outbox = Outbox()
    outbox.write(5.0, frame(0.1))
    outbox.write(5.0, frame(0.2))
    outbox.next(6.0)
    outbox.sent(6.0)
    assert outbox.stalls_at_s == 6.0 + STALL_S
    outbox.acknowledge(8.0, FRAME_SAMPLES)
    assert outbox.stalls_at_s == 8.0 + STALL_S
    outbox.acknowledge(9.0, FRAME_SAMPLES)  # nothing new
    assert outbox.stalls_at_s == 8.0 + STALL_S


def test_what_is_taken_beyond_the_window_gives_no_new_patience() -> None:
    outbox = Outbox()
    outbox.acknowledge(0.0, 0)
    while outbox.audio_room:
        outbox.write(1.0, frame(0.1))
        _drain(outbox, now=1.0)
    outbox.put(5.0, "word", Worth.WORDS)
    for _ in range(MOST_FRAMES):
        outbox.write(5.0, frame(0.2))
    assert _drain(outbox, now=5.0) == ["word"]  # what stood before it was dropped
    assert outbox.stalls_at_s == 1.0 + STALL_S


# ---- hold, flush, end ------------------------------------------------------------------------------------------------


def test_held_audio_lets_messages_pass_and_goes_on_with_its_newest_second() -> None:
    outbox = Outbox()
    outbox.hold()
    for number in range(50):
        outbox.write(0.0, frame(number / 100))
    outbox.put(0.0, "word", Worth.WORDS)
    assert _drain(outbox) == ["word"]
    outbox.release(1.0)
    assert _drain(outbox) == [number / 100 for number in range(50 - MOST_FRAMES, 50)]


def test_a_peer_that_wants_no_audio_does_not_stall() -> None:
    outbox = Outbox()
    outbox.hold()
    outbox.write(0.0, frame(0.1))
    assert outbox.stalls_at_s == math.inf
    outbox.release(100.0)
    assert outbox.stalls_at_s == 100.0 + STALL_S


def test_a_message_that_waits_beside_held_audio_can_stall() -> None:
    outbox = Outbox()
    outbox.hold()
    outbox.write(0.0, frame(0.1))
    outbox.put(5.0, "word", Worth.WORDS)
    assert outbox.stalls_at_s == 5.0 + STALL_S


def test_flush_leaves_messages_and_a_fade_behind_and_what_follows_fades_in() -> None:
    outbox = Outbox()
    outbox.write(0.0, frame(0.1))
    outbox.put(0.0, "word", Worth.WORDS)
    outbox.write(0.0, frame(0.2))
    assert outbox.flush() == 2 * FRAME_SAMPLES - FADE_OUT_SAMPLES
    outbox.write(0.0, frame(0.3))
    faded, word, following = outbox.next(0.0), outbox.next(0.0), outbox.next(0.0)
    assert isinstance(faded, np.ndarray) and isinstance(following, np.ndarray)
    assert word == "word"
    assert faded.size == FRAME_SAMPLES and faded[0] == np.float32(0.1) and not faded[FADE_OUT_SAMPLES:].any()
    assert following[0] == 0.0 and following[-1] == np.float32(0.3)


def test_flush_of_nothing_changes_nothing() -> None:
    outbox, pcm = Outbox(), frame(0.5)
    outbox.put(0.0, "word", Worth.WORDS)
    assert outbox.flush() == 0
    outbox.write(0.0, pcm)
    assert _drain(outbox) == ["word", 0.5]
    assert outbox.dropped_samples == 0


def test_at_the_end_audio_that_nobody_wants_is_left_out() -> None:
    outbox = Outbox()
    outbox.hold()
    outbox.write(0.0, frame(0.1))
    outbox.put(0.0, "goodbye", Worth.REST)
    outbox.finish()
    assert _drain(outbox) == ["goodbye"]
    assert outbox.is_empty


def test_played_is_what_was_handed_over() -> None:
    outbox = Outbox()
    for _ in range(3):
        outbox.write(0.0, frame(0.1))
    outbox.next(0.0)
    assert (outbox.played_samples, outbox.queued_samples) == (FRAME_SAMPLES, 2 * FRAME_SAMPLES)
