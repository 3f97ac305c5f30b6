from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.engine.cascade.skills.reply import Memory, Said
from rtc_server.engine.cascade.skills.sums import sums
from tests.engine.cascade.fakes import NOON


def answer(text: str) -> str | None:
    reply = sums(Said.of(text), Memory(), NOON)
    return reply.sentences[0] if reply else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is two plus two?", "2 plus 2 is 4."),
        ("What's 12 + 30?", "12 plus 30 is 42."),
        ("How much is seven times eight?", "7 times 8 is 56."),
        ("7 x 8", "7 times 8 is 56."),
        ("Twenty-one minus thirty.", "21 minus 30 is minus 9."),
        ("What is ten divided by four?", "10 divided by 4 is 2.5."),
        ("10 / 3", "10 divided by 3 is about 3.33."),
        ("six multiplied by seven", "6 times 7 is 42."),
        ("two plus three times four", "2 plus 3 times 4 is 14."),
        ("1,000 minus 1", "1,000 minus 1 is 999."),
        ("Is five minus minus three eight?", "5 minus minus 3 is 8."),
    ],
)
def test_sums_in_words_and_digits(text: str, expected: str) -> None:
    assert answer(text) == expected


def test_division_by_zero_and_monsters_are_refused_kindly() -> None:
    assert answer("five divided by zero") == "Nobody can divide by zero, and neither can I."
    assert answer("999999999999999 times 999999999999999") == "That is more than I can say in one breath."


@pytest.mark.parametrize("text", ["What time is it?", "ten minutes", "plus five", "five plus", "I am five"])
def test_what_is_no_sum_is_left_to_others(text: str) -> None:
    assert answer(text) is None


@given(st.text(alphabet="0123456789+-*/x. plusminus", max_size=200))
def test_any_text_is_answered_or_left(text: str) -> None:
    found = answer(text)
    assert found is None or 0 < len(found) < 400
