"""Patterns of phone numbers and user names, read in time that grows with the length of what is read and no faster.

Three ways to write one: ``+15550100`` means itself; in ``+1555*`` a star stands for any characters; between slashes
stands a regular expression without groups and look-around, which must fit from end to end: ``/[+]?1555\\d{4}|agent/``.
It knows literals, ``.``, ``\\d``, classes such as ``[0-9a-f]`` or ``[^*#]``, the counts ``? * + {n} {n,m} {n,}``, and
``|`` between alternatives. All states are followed at once, so that no text makes a pattern backtrack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_NUMBER_CHARS = 128
"""Nobody has a longer number; a longer text fits nothing."""
MAX_STEPS = 512
"""Of all alternatives together, counts written out."""

_DIGITS = frozenset("0123456789")
_COUNT = re.compile(r"\{([0-9]{1,3})(?:(,)([0-9]{1,3})?)?\}")
_NOT_IN_NUMBERS = frozenset("/\\[](){}|^$? \t\r\n")
"""Whoever writes these outside of slashes means an expression."""
_ESCAPABLE = frozenset("\\^$.|?*+()[]{}/-")
_UNSUPPORTED = {"(": "groups", ")": "groups", "^": "anchors", "$": "anchors", "/": "slashes", "]": "a bare ]"}


@dataclass(frozen=True, slots=True)
class _Characters:
    """One of these, or with `inverted` any but these."""

    members: frozenset[str]
    inverted: bool = False

    def __contains__(self, character: str) -> bool:
        return (character in self.members) is not self.inverted


_ANY = _Characters(frozenset(), inverted=True)


@dataclass(frozen=True, slots=True)
class _Step:
    """A character that is there once, may be left out (`skip`), or may come again (`stay`, which implies `skip`)."""

    characters: _Characters
    skip: bool = False
    stay: bool = False


class Pattern:
    """Compiled once, from settings; matches what strangers send. Immutable."""

    __slots__ = ("_alternatives", "text")

    def __init__(self, text: str) -> None:
        """Raises: ValueError, which says what cannot be read."""
        self.text = text
        if len(text) > 2 and text.startswith("/") and text.endswith("/"):
            self._alternatives = _Reader(text[1:-1]).read()
        elif text and not _NOT_IN_NUMBERS & set(text):
            steps = (_Step(_ANY, True, True) if one == "*" else _Step(_Characters(frozenset(one))) for one in text)
            self._alternatives = (tuple(steps),)
        else:
            raise ValueError("a pattern is a number, a number with *, or a regular expression between two slashes")
        if sum(map(len, self._alternatives)) > MAX_STEPS:
            raise ValueError(f"the pattern has more than {MAX_STEPS} steps; write shorter counts")

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def matches(self, text: str) -> bool:
        """Whether the whole of `text` fits."""
        return len(text) <= MAX_NUMBER_CHARS and any(_fits(steps, text) for steps in self._alternatives)


def _fits(steps: tuple[_Step, ...], text: str) -> bool:
    states = _skipped(steps, {0})
    for character in text:
        following: set[int] = set()
        for state in states:
            if state < len(steps) and character in steps[state].characters:
                following.add(state if steps[state].stay else state + 1)
        if not following:
            return False
        states = _skipped(steps, following)
    return len(steps) in states


def _skipped(steps: tuple[_Step, ...], states: set[int]) -> set[int]:
    """These states and those that need no further character."""
    reached: set[int] = set()
    for start in states:
        state = start
        while state not in reached:
            reached.add(state)
            if state == len(steps) or not steps[state].skip:
                break
            state += 1
    return reached


class _Reader:
    """Reads the expression between the slashes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> tuple[tuple[_Step, ...], ...]:
        alternatives: list[tuple[_Step, ...]] = []
        steps: list[_Step] = []
        while self._at < len(self._text):
            if self._take("|"):
                alternatives.append(tuple(steps))
                steps = []
            else:
                characters = self._characters()
                steps += self._counted(characters)
                if len(steps) > MAX_STEPS:
                    break
        return (*alternatives, tuple(steps))

    def _take(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self._at):
            self._at += len(wanted)
            return True
        return False

    def _next(self) -> str:
        if self._at == len(self._text):
            raise ValueError("the expression ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _characters(self) -> _Characters:
        one = self._next()
        if one == ".":
            return _ANY
        if one == "\\":
            return _Characters(self._escaped())
        if one == "[":
            return self._class()
        if one in "?*+{":
            raise ValueError(f"{one!r} counts nothing")
        if one in _UNSUPPORTED:
            raise ValueError(f"{_UNSUPPORTED[one]} cannot be used; for the character itself write \\{one}")
        return _Characters(frozenset(one))

    def _escaped(self) -> frozenset[str]:
        one = self._next()
        if one == "d":
            return _DIGITS
        if one not in _ESCAPABLE:
            raise ValueError(f"\\{one} cannot be used")
        return frozenset(one)

    def _class(self) -> _Characters:
        inverted = self._take("^")
        members: set[str] = set()
        while not self._take("]"):
            first = self._next()
            if first == "\\":
                members |= self._escaped()
                continue
            if self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last = self._next()
                if last == "\\" or not first <= last <= "\x7f":
                    raise ValueError(f"{first}-{last} is no range")
                members |= {chr(code) for code in range(ord(first), ord(last) + 1)}
            else:
                members.add(first)
        if not members:
            raise ValueError("a class is empty")
        return _Characters(frozenset(members), inverted)

    def _counted(self, characters: _Characters) -> list[_Step]:
        once, optional, repeated = _Step(characters), _Step(characters, True), _Step(characters, True, True)
        if self._take("?"):
            return [optional]
        if self._take("*"):
            return [repeated]
        if self._take("+"):
            return [once, repeated]
        match = _COUNT.match(self._text, self._at)
        if match is None:
            return [once]
        self._at = match.end()
        least = int(match[1])
        if match[3] is not None:
            most = int(match[3])
            if most < least:
                raise ValueError(f"{match[0]} is no range")
            return [once] * least + [optional] * (most - least)
        return [once] * least + ([repeated] if match[2] else [])
