"""The time and the date, from the clock that is handed in."""

from __future__ import annotations

from datetime import datetime

from rtc_server.engine.cascade.skills.reply import Memory, Reply, Said

_ASKS_TIME = r"what time|what's the time|what is the time|time is it|the time(?: please)?|time now|current time|o'clock"
_ASKS_DATE = (
    r"what day|which day|what date|the date|today's date|day is it|date is it|what month|which month|what year|"
    r"which year|day of the week"
)


def time_of_day(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(_ASKS_TIME):
        return None
    hour = now.hour % 12 or 12
    return Reply("time", (f"It is {hour}:{now.minute:02d} {'AM' if now.hour < 12 else 'PM'}.",), memory)


def date(said: Said, memory: Memory, now: datetime) -> Reply | None:
    if not said.has(_ASKS_DATE):
        return None
    return Reply("date", (f"Today is {now:%A}, {now:%B} {now.day}, {now.year}.",), memory)
