"""The types that skills share: what was said, what is remembered, what is answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Timer:
    due: datetime
    length: timedelta


@dataclass(frozen=True, slots=True)
class Memory:
    """All that a conversation remembers. Immutable: an answer that is thrown away leaves no trace."""

    agent_name: str | None = None
    user_name: str | None = None
    seed: int = 0
    stories_told: int = 0
    jokes_told: int = 0
    fallbacks: int = 0
    timers: tuple[Timer, ...] = ()
    asked_length: bool = False
    """The agent has just asked how long a timer should be."""


@dataclass(frozen=True, slots=True)
class Said:
    """An utterance of the user."""

    text: str
    """As it was recognised."""
    plain: str
    """Lower case; words, numbers and the signs + - * / only; hyphens inside words are spaces."""

    @classmethod
    def of(cls, text: str) -> Said:
        lower = text.lower().replace("’", "'").replace("×", "*").replace("÷", "/")
        lower = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", lower)
        lower = re.sub(r"(?<=\d),(?=\d{3})", "", lower)
        tokens = re.findall(r"\d+:\d\d|\d+(?:\.\d+)?|[a-z]+(?:'[a-z]+)?|[+\-*/]", lower)
        return cls(text, " ".join(tokens))

    def has(self, pattern: str) -> bool:
        """Does the regular expression match whole words somewhere in `plain`?"""
        return re.search(rf"(?<!\S)(?:{pattern})(?!\S)", self.plain) is not None


@dataclass(frozen=True, slots=True)
class Reply:
    skill: str
    sentences: tuple[str, ...]
    """Spoken one after the other; an interruption drops what is left."""
    memory: Memory


Skill = Callable[[Said, Memory, datetime], Reply | None]
