from __future__ import annotations

from datetime import timedelta

import pytest

from rtc_server.engine.cascade.skills.reply import Memory, Reply, Said
from rtc_server.engine.cascade.skills.timers import MAX_TIMERS, read_duration, take_due, timers
from tests.engine.cascade.fakes import NOON


def ask(text: str, memory: Memory, after_s: float = 0) -> Reply:
    reply = timers(Said.of(text), memory, NOON + timedelta(seconds=after_s))
    assert reply is not None
    return reply


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("ten seconds", 10),
        ("5 minutes", 300),
        ("an hour", 3600),
        ("half a minute", 30),
        ("half an hour", 1800),
        ("one and a half minutes", 90),
        ("a minute and a half", 90),
        ("two and a half hours", 9000),
        ("one hour and thirty minutes", 5400),
        ("1.5 minutes", 90),
        ("a timer for five minutes please, my friend of ten years", 300),
    ],
)
def test_durations_are_read_as_people_say_them(text: str, seconds: int) -> None:
    assert read_duration(Said.of(text).plain.split()) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "seven", "a", "and a half"])
def test_no_duration_is_none(text: str) -> None:
    assert read_duration(text.split()) is None


def test_a_timer_is_due_when_its_time_has_come_and_only_once() -> None:
    memory = ask("Set a timer for ten seconds.", Memory()).memory
    assert take_due(memory, NOON + timedelta(seconds=9)) == (None, memory)
    sentence, memory = take_due(memory, NOON + timedelta(seconds=10))
    assert sentence == "Ding! Your timer of 10 seconds is done."
    assert take_due(memory, NOON + timedelta(days=2)) == (None, memory)


def test_a_known_user_is_called_by_name() -> None:
    memory = ask("Remind me in one minute.", Memory(user_name="Alex")).memory
    assert take_due(memory, NOON + timedelta(minutes=1))[0] == "Alex, your timer of 1 minute is done."


def test_what_is_left_and_cancelling() -> None:
    memory = ask("Set a timer for ten minutes.", Memory()).memory
    left = ask("How much time is left on the timer?", memory, after_s=60)
    assert left.sentences == ("The next timer is due in 9 minutes.",)
    cancelled = ask("Cancel the timer.", memory)
    assert cancelled.memory.timers == ()
    assert ask("Cancel the timer.", cancelled.memory).sentences == ("There is no timer to cancel.",)
    assert ask("How long is left on the timer?", cancelled.memory).sentences == ("There is no timer running.",)


def test_the_number_and_the_length_of_timers_are_bounded() -> None:
    memory = Memory()
    for _ in range(MAX_TIMERS + 3):
        memory = ask("Set a timer for ten minutes.", memory).memory
    assert len(memory.timers) == MAX_TIMERS
    for text in ("Set a timer for 999999999999999 hours.", "Set a timer for zero seconds.", "timer for 25 hours"):
        assert ask(text, Memory()).memory.timers == ()


def test_timers_come_in_the_order_in_which_they_are_due() -> None:
    memory = ask("Set a timer for ten minutes.", Memory()).memory
    memory = ask("Set a timer for five minutes.", memory).memory
    assert ask("How long is left on the timer?", memory).sentences == ("The next timer is due in 5 minutes.",)
