"""Sums: two to eight numbers with plus, minus, times and divided by, the usual precedence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction

from rtc_server.engine.cascade.skills.numbers import read_number, speak_number
from rtc_server.engine.cascade.skills.reply import Memory, Reply, Said

_OPERATORS: dict[tuple[str, ...], str] = {
    ("multiplied", "by"): "times",
    ("divided", "by"): "divided by",
    ("plus",): "plus",
    ("add",): "plus",
    ("+",): "plus",
    ("minus",): "minus",
    ("-",): "minus",
    ("times",): "times",
    ("x",): "times",
    ("*",): "times",
    ("over",): "divided by",
    ("/",): "divided by",
}
_MAX_NUMBERS = 8
_LARGEST = 10**15


def sums(said: Said, memory: Memory, now: datetime) -> Reply | None:
    """Answers a sum that stands anywhere in what was said."""
    words = said.plain.split()
    for start in range(len(words)):
        numbers, operators = _read_sum(words, start)
        if operators:
            return Reply("sums", (_answer(numbers, operators),), memory)
    return None


def _read_sum(words: Sequence[str], start: int) -> tuple[list[Fraction], list[str]]:
    numbers: list[Fraction] = []
    operators: list[str] = []
    read = read_number(words, start)
    while read is not None and len(numbers) < _MAX_NUMBERS:
        value, at = read
        numbers.append(value)
        operator = _operator_at(words, at)
        if operator is None:
            break
        name, at = operator
        read = read_number(words, at)
        if read is not None and len(numbers) < _MAX_NUMBERS:
            operators.append(name)
    return numbers, operators


def _operator_at(words: Sequence[str], at: int) -> tuple[str, int] | None:
    for spoken, name in _OPERATORS.items():
        if tuple(words[at : at + len(spoken)]) == spoken:
            return name, at + len(spoken)
    return None


def _answer(numbers: list[Fraction], operators: list[str]) -> str:
    question = speak_number(numbers[0])
    for operator, number in zip(operators, numbers[1:], strict=True):
        question += f" {operator} {speak_number(number)}"
    terms = [numbers[0]]
    for operator, number in zip(operators, numbers[1:], strict=True):
        if operator == "times":
            terms[-1] *= number
        elif operator == "divided by":
            if number == 0:
                return "Nobody can divide by zero, and neither can I."
            terms[-1] /= number
        else:
            terms.append(number if operator == "plus" else -number)
    result = sum(terms, Fraction(0))
    if abs(result) > _LARGEST:
        return "That is more than I can say in one breath."
    return f"{question} is {speak_number(result)}."
