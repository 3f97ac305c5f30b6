"""Repeat after me, and counting."""

from __future__ import annotations

import re
from datetime import datetime

from rtc_server.engine.cascade.skills.numbers import read_number
from rtc_server.engine.cascade.skills.reply import Memory, Reply, Said

MAX_COUNT = 50
_MAX_REPEATED = 240
_PER_SENTENCE = 5
_REPEAT = re.compile(r"\b(?:repeat after me|repeat this|say after me)\b[\s,.:;]*(.*)", re.IGNORECASE | re.DOTALL)


def repeat(said: Said, memory: Memory, now: datetime) -> Reply | None:
    found = _REPEAT.search(said.text)
    if found is None:
        return None
    words = found[1].strip()[:_MAX_REPEATED].strip()
    if not words:
        return Reply("repeat", ("Say repeat after me, and then a sentence.",), memory)
    sentence = words[0].upper() + words[1:]
    return Reply("repeat", (sentence if sentence[-1] in ".!?" else f"{sentence}.",), memory)


def count(said: Said, memory: Memory, now: datetime) -> Reply | None:
    """Counts to a number up to fifty, five numbers to a sentence, so that it can be stopped."""
    if not said.has(r"count(?: up)?(?: from \S+)? to \S+.*|count for me|can you count"):
        return None
    words = said.plain.split()
    after = words.index("count") + 1
    read = read_number(words, words.index("to", after) + 1) if "to" in words[after:] else None
    last = int(read[0]) if read is not None else 10
    if last < 1:
        return Reply("count", ("I count upwards, from one.",), memory)
    top = min(last, MAX_COUNT)
    numbers = [str(number) for number in range(1, top + 1)]
    groups = [numbers[i : i + _PER_SENTENCE] for i in range(0, top, _PER_SENTENCE)]
    sentences = tuple(", ".join(group) + "." for group in groups)
    if last > MAX_COUNT:
        sentences = (*sentences, "And I had better stop here.")
    return Reply("count", sentences, memory)
