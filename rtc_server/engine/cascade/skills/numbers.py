"""Numbers as people say them: "twenty-one", "two hundred and five", "1200", "three point five"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

_SMALL_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_SMALL_WORDS.split())}
_TENS = {word: 10 * value for value, word in enumerate(_TENS_WORDS.split(), 2)}
_SCALES = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_DIGITS = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_MAX_DECIMALS = 6


def read_number(words: Sequence[str], start: int = 0) -> tuple[Fraction, int] | None:
    """The number that begins at `words[start]` and the index after it, or None."""
    sign = 1
    at = start
    if at < len(words) - 1 and words[at] in ("minus", "negative", "-"):
        sign, at = -1, at + 1
    read = _read_digits(words, at) or _read_words(words, at)
    if read is None:
        return None
    value, at = _read_decimals(words, *read)
    return sign * value, at


def speak_number(value: Fraction) -> str:
    """Digits with commas; at most two decimals, said to be rounded where they are."""
    if value.denominator == 1:
        return f"{value.numerator:,}".replace("-", "minus ")
    rounded = Fraction(round(value * 100), 100)
    text = f"{float(abs(rounded)):,.2f}".rstrip("0").rstrip(".")
    return f"{'' if rounded == value else 'about '}{'minus ' if rounded < 0 else ''}{text}"


def _read_digits(words: Sequence[str], at: int) -> tuple[Fraction, int] | None:
    if at >= len(words) or not _DIGITS.fullmatch(words[at]):
        return None
    value = Fraction(words[at])
    at += 1
    while at < len(words) and words[at] in _SCALES:
        value *= _SCALES[words[at]]
        at += 1
    return value, at


def _read_words(words: Sequence[str], at: int) -> tuple[Fraction, int] | None:
    total = group = 0
    began = at
    while at < len(words):
        word = words[at]
        if word in _SMALL and (at == began or words[at - 1] in _TENS or words[at - 1] in (*_SCALES, "hundred", "and")):
            group += _SMALL[word]
        elif word in _TENS and (at == began or words[at - 1] in (*_SCALES, "hundred", "and")):
            group += _TENS[word]
        elif word == "hundred" and 0 < group < 100:
            group *= 100
        elif word in _SCALES and group:
            total, group = total + group * _SCALES[word], 0
        elif word == "a" and at == began and at + 1 < len(words) and words[at + 1] in ("hundred", *_SCALES):
            group = 1
        elif not (word == "and" and at > began and _continues(words, at)):
            break
        at += 1
    return (Fraction(total + group), at) if at > began else None


def _continues(words: Sequence[str], at: int) -> bool:
    """Is this the "and" of "two hundred and five"?"""
    follows = words[at + 1] if at + 1 < len(words) else ""
    return words[at - 1] in (*_SCALES, "hundred") and (follows in _SMALL or follows in _TENS)


def _read_decimals(words: Sequence[str], value: Fraction, at: int) -> tuple[Fraction, int]:
    if at >= len(words) or words[at] != "point":
        return value, at
    digits = ""
    end = at + 1
    while end < len(words) and len(digits) < _MAX_DECIMALS:
        word = words[end]
        if _SMALL.get(word, 10) < 10:
            digits += str(_SMALL[word])
        elif re.fullmatch(r"\d{1,6}", word):
            digits += word
        else:
            break
        end += 1
    if not digits:
        return value, at
    return value + Fraction(int(digits), 10 ** len(digits)), end
