from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.engine.cascade.skills.numbers import read_number, speak_number
from rtc_server.engine.cascade.skills.reply import Said


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("seven", 7),
        ("twenty-one", 21),
        ("one hundred", 100),
        ("a hundred", 100),
        ("two hundred and five", 205),
        ("three thousand two hundred and forty six", 3246),
        ("a million", 1_000_000),
        ("1,200", 1200),
        ("2 million", 2_000_000),
        ("3.5", Fraction(7, 2)),
        ("three point one four", Fraction(314, 100)),
        ("minus four", -4),
        ("zero", 0),
    ],
)
def test_numbers_are_read_as_people_say_them(text: str, value: int | Fraction) -> None:
    words = Said.of(text).plain.split()
    assert read_number(words) == (value, len(words))


@pytest.mark.parametrize("text", ["", "apple", "and five", "hundred", "point five", "minus"])
def test_what_is_no_number_is_not_read(text: str) -> None:
    assert read_number(text.split()) is None


def test_reading_stops_where_the_number_ends() -> None:
    assert read_number(["five", "six"]) == (5, 1)
    assert read_number(["two", "and", "three"]) == (2, 1)
    assert read_number(["twenty", "minutes"]) == (20, 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(5), "5"),
        (Fraction(1234567), "1,234,567"),
        (Fraction(-3), "minus 3"),
        (Fraction(1, 2), "0.5"),
        (Fraction(10, 3), "about 3.33"),
        (Fraction(-1, 3), "about minus 0.33"),
    ],
)
def test_numbers_are_spoken_briefly(value: Fraction, text: str) -> None:
    assert speak_number(value) == text


@given(st.integers(0, 10**12))
def test_what_is_spoken_can_be_read_back(value: int) -> None:
    words = Said.of(speak_number(Fraction(value))).plain.split()
    assert read_number(words) == (value, len(words))


WORDS = "one two twenty hundred thousand and point minus a 5 1200 x"


@given(st.lists(st.sampled_from(WORDS.split()), max_size=12))
def test_any_words_are_read_or_refused_without_an_error(words: list[str]) -> None:
    read = read_number(words)
    assert read is None or 0 < read[1] <= len(words)
