"""Timers that speak up by themselves, whatever is going on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction

from rtc_server.engine.cascade.skills.numbers import read_number
from rtc_server.engine.cascade.skills.reply import Memory, Reply, Said, Timer

MAX_TIMERS = 5
_LONGEST = timedelta(hours=24)
_UNITS = {"second": 1, "minute": 60, "hour": 3600}
_ABOUT_TIMERS = r"timers?|alarm|remind me in|wake me(?: up)? in|tell me in|call me in"
_CANCEL = r"cancel|stop|clear|delete|forget|turn off"
_ASKS_LEFT = r"how much|how long|time left|left on"


def timers(said: Said, memory: Memory, now: datetime) -> Reply | None:
    """Set, cancel or ask about timers; at most five at once, of at most a day."""
    if not said.has(_ABOUT_TIMERS):
        return None
    if said.has(_CANCEL):
        done = "All timers are cancelled." if memory.timers else "There is no timer to cancel."
        return Reply("timer", (done,), dataclasses.replace(memory, timers=()))
    if said.has(_ASKS_LEFT):
        return Reply("timer", (_left(memory, now),), memory)
    return start(said, memory, now) or Reply("timer", (_HOW_LONG,), dataclasses.replace(memory, asked_length=True))


def start(said: Said, memory: Memory, now: datetime) -> Reply | None:
    """A timer of the duration that was named; None where none was."""
    length = read_duration(said.plain.split())
    if length is None:
        return None
    if not timedelta(seconds=1) <= length <= _LONGEST:
        return Reply("timer", ("I can set timers from one second to one day.",), memory)
    if len(memory.timers) >= MAX_TIMERS:
        return Reply("timer", (f"I already watch {MAX_TIMERS} timers, and that is my limit.",), memory)
    ordered = sorted((*memory.timers, Timer(now + length, length)), key=lambda timer: timer.due)
    sentence = f"Okay, I will tell you in {speak_duration(length)}."
    return Reply("timer", (sentence,), dataclasses.replace(memory, timers=tuple(ordered)))


def take_due(memory: Memory, now: datetime) -> tuple[str | None, Memory]:
    """What to say about timers that are due, and the memory without them."""
    due = [timer for timer in memory.timers if timer.due <= now]
    if not due:
        return None, memory
    lengths = " and ".join(speak_duration(timer.length) for timer in due)
    name = f"{memory.user_name}, your" if memory.user_name else "Ding! Your"
    sentence = f"{name} timer of {lengths} is done."
    return sentence, dataclasses.replace(memory, timers=tuple(t for t in memory.timers if t.due > now))


def read_duration(words: Sequence[str]) -> timedelta | None:
    """The first duration in `words`: "ten seconds", "an hour and 5 minutes", "half a minute", "2 and a half hours"."""
    seconds: Fraction | None = None
    at = 0
    while at < len(words):
        part = _read_part(words, at)
        if part is not None:
            value, at = part
            seconds = (seconds or Fraction(0)) + value
        elif seconds is not None and words[at] != "and":
            break
        else:
            at += 1
    if seconds is None or seconds > 10**9:
        return None if seconds is None else _LONGEST * 2
    return timedelta(seconds=round(seconds))


def speak_duration(length: timedelta) -> str:
    """Hours, minutes and seconds, without the ones that are zero."""
    left = max(1, round(length.total_seconds()))
    parts = []
    for unit, size in reversed(_UNITS.items()):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    return " and ".join(parts)


_HOW_LONG = "For how long? You could say: ten seconds."


def _left(memory: Memory, now: datetime) -> str:
    if not memory.timers:
        return "There is no timer running."
    return f"The next timer is due in {speak_duration(memory.timers[0].due - now)}."


def _read_part(words: Sequence[str], at: int) -> tuple[Fraction, int] | None:
    """A number with its unit, in seconds, and the index after it."""
    half = Fraction(1, 2)
    if words[at : at + 2] in (["half", "a"], ["half", "an"]):
        amount, at = half, at + 2
    elif (number := read_number(words, at)) is not None:
        amount, at = number
    elif words[at] in ("a", "an"):
        amount, at = Fraction(1), at + 1
    else:
        return None
    if words[at : at + 3] in (["and", "a", "half"], ["and", "one", "half"]):
        amount, at = amount + half, at + 3
    unit = _UNITS.get(words[at].removesuffix("s")) if at < len(words) else None
    if unit is None or amount < 0:
        return None
    if words[at + 1 : at + 4] == ["and", "a", "half"]:
        return (amount + half) * unit, at + 4
    return amount * unit, at + 1
