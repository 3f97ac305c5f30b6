from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server import events
from rtc_server.session.eventlog import EventLog


def delta(text: str = "word") -> events.ResponseDelta:
    return events.ResponseDelta(response_index=0, data=text, frame=1, rtp_timestamp=960)


def seqs(log: EventLog, after_seq: int = 0) -> list[int]:
    return [numbered.seq for numbered in log.replay(after_seq).events]


PASSING = [
    events.SessionStats(loss=0, jitter_delay_ms=0, lateness_ms=0, tick_ms=0, shed=0),
    events.SessionPrefill(done=1, total=2),
    events.SessionDegraded(reason="away"),
    events.SessionResumed(),
    events.SessionEnding(in_s=3, reason="server_stopping"),
    events.SessionEnded(reason="replaced"),
    events.ErrorEvent(code="bad_event", message="no"),
    events.InputTranscript(item=0, text="whe", final=False, start_ms=0, end_ms=80),
]


def test_every_event_gets_the_next_number() -> None:
    log = EventLog()
    assert [log.append(event, 0.0).seq for event in [delta(), *PASSING, delta()]] == list(range(1, 11))


@pytest.mark.parametrize("event", PASSING, ids=lambda event: event.type)
def test_what_was_true_of_a_moment_or_a_leg_is_not_kept(event: events.ServerEvent) -> None:
    log = EventLog()
    log.append(event, 0.0)
    assert log.replay(0) == ([], 0)


def test_the_opening_stands_apart() -> None:
    log = EventLog()
    created = log.append(events.SessionCreated(id="x", engine={}, capabilities={}), 0.0)
    assert log.opening is created
    assert log.replay(0) == ([], 0)


def test_replay_begins_behind_what_is_known_and_names_no_playout_time() -> None:
    log = EventLog()
    for _ in range(5):
        log.append(delta(), 0.0)
    replay = log.replay(3)
    assert [numbered.seq for numbered in replay.events] == [4, 5]
    assert all(numbered.event.to_json()["rtp_timestamp"] is None for numbered in replay.events)
    assert replay.missed == 0


def test_what_was_known_at_a_time_is_what_was_given_before_it() -> None:
    log = EventLog(max_events=2)
    for at_s in (1.0, 2.0, 3.0, 4.0):
        log.append(delta(), at_s)
    assert [log.last_before(time_s) for time_s in (0.5, 1.5, 2.0, 3.5, 9.0)] == [0, 1, 1, 3, 4]


def test_too_long_texts_push_older_ones_out() -> None:
    log = EventLog(max_bytes=1000)
    for _ in range(5):
        log.append(delta("é" * 100), 0.0)  # 300 bytes each
    assert seqs(log) == [3, 4, 5]
    assert log.replay(1).missed == 1


def test_an_event_that_is_larger_than_everything_is_missed_and_leaves_room_for_the_next() -> None:
    log = EventLog(max_bytes=1000)
    log.append(delta("x" * 2000), 0.0)
    log.append(delta(), 0.0)
    assert log.replay(0)[1] == 1
    assert seqs(log) == [2]


@given(
    kinds=st.lists(st.sampled_from([delta(), delta("x" * 50), *PASSING]), max_size=80),
    known=st.integers(0, 90),
    max_events=st.integers(1, 20),
    max_bytes=st.integers(1, 3000),
)
def test_replayed_and_missed_are_together_what_the_client_does_not_know(
    kinds: list[events.ServerEvent], known: int, max_events: int, max_bytes: int
) -> None:
    log = EventLog(max_events, max_bytes)
    given_seqs = [log.append(event, 0.0).seq for event in kinds]
    lasting = [seq for seq, event in zip(given_seqs, kinds, strict=True) if event not in PASSING and seq > known]
    replay = log.replay(known)
    assert len(replay.events) <= max_events
    assert len(replay.events) + replay.missed == len(lasting)
    assert [numbered.seq for numbered in replay.events] == lasting[replay.missed :]
