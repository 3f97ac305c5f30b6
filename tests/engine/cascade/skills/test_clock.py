from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rtc_server.engine.cascade.skills.clock import date, time_of_day
from rtc_server.engine.cascade.skills.reply import Memory, Said


@pytest.mark.parametrize(
    ("hour", "minute", "spoken"),
    [(0, 0, "12:00 AM"), (9, 5, "9:05 AM"), (12, 30, "12:30 PM"), (23, 59, "11:59 PM")],
)
def test_the_time_is_told_on_a_twelve_hour_clock(hour: int, minute: int, spoken: str) -> None:
    reply = time_of_day(Said.of("Tell me the time."), Memory(), datetime(2026, 1, 1, hour, minute, tzinfo=UTC))
    assert reply is not None
    assert reply.sentences == (f"It is {spoken}.",)


def test_the_date_is_told_with_its_weekday() -> None:
    reply = date(Said.of("What day is it?"), Memory(), datetime(2026, 3, 4, tzinfo=UTC))
    assert reply is not None
    assert reply.sentences == ("Today is Wednesday, March 4, 2026.",)


@pytest.mark.parametrize("text", ["I had a good time.", "five times six", "It is time to go."])
def test_time_in_passing_is_no_question(text: str) -> None:
    assert time_of_day(Said.of(text), Memory(), datetime(2026, 1, 1, tzinfo=UTC)) is None
