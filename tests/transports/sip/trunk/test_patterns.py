from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.transports.sip.trunk.patterns import MAX_NUMBER_CHARS, Pattern


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        ("+15550100", ["+15550100"], ["15550100", "+155501000", "+1555010", ""]),
        ("+1555*", ["+1555", "+15550100"], ["1555", "+1556"]),
        ("*", ["", "anyone"], []),
        ("a*c", ["ac", "abbc", "acc"], ["ab", "acb"]),
        ("agent.smith-2", ["agent.smith-2"], ["agentXsmith-2"]),
        (r"/[+]?1555\d{4}/", ["+15550100", "15550100"], ["+1555010", "+155501000", "++15550100"]),
        ("/agent|9[0-4]+/", ["agent", "90", "9444"], ["9", "95", "agent9"]),
        ("/[^*#]{2,}/", ["12", "abcdef"], ["1", "1#", "1*2"]),
        (r"/\*9[a-c-]?/", ["*9", "*9a", "*9-"], ["9", "*9d", "*9ab"]),
        (r"/\+1.{0,2}/", ["+1", "+1ab"], ["+1abc"]),
        ("/a{2}b*/", ["aa", "aabb"], ["a", "aaa"]),
    ],
)
def test_pattern_fits_the_whole_number_or_not_at_all(pattern: str, fits: list[str], fails: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [text for text in fits if not compiled.matches(text)] == []
    assert [text for text in fails if compiled.matches(text)] == []


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "between two slashes"),
        ("//", "between two slashes"),
        ("/", "between two slashes"),
        (r"+1555\d+", "between two slashes"),
        ("+1555[0-9]", "between two slashes"),
        ("/(a|b)/", "groups cannot be used"),
        ("/^1/", "anchors cannot be used"),
        ("/[0-9/", "ends too early"),
        ("/[]/", "class is empty"),
        ("/[9-0]/", "9-0 is no range"),
        ("/a{3,2}/", "is no range"),
        ("/+1/", "counts nothing"),
        ("/a**/", "counts nothing"),
        (r"/\w/", r"\\w cannot be used"),
        (r"/a\/", "ends too early"),
        ("/" + "a{400}" * 2 + "/", "more than 512 steps"),
    ],
)
def test_pattern_that_cannot_be_read_says_why(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pattern(pattern)


def test_longer_text_than_any_number_fits_nothing() -> None:
    assert Pattern("*").matches("1" * MAX_NUMBER_CHARS)
    assert not Pattern("*").matches("1" * (MAX_NUMBER_CHARS + 1))


def test_many_stars_do_not_make_a_long_number_slow() -> None:
    pattern = Pattern("1*" * 60 + "2")
    started = time.thread_time()
    assert not pattern.matches("1" * MAX_NUMBER_CHARS)
    assert time.thread_time() - started < 1.0  # a backtracking matcher needs longer than the universe is old


_ATOMS = st.sampled_from(["a", "1", ".", r"\d", "[a1]", "[^b]", "[a-c]", r"\+", "[0-9b]"])
_COUNTS = st.sampled_from(["", "", "?", "*", "+", "{2}", "{1,3}", "{2,}"])
_SEQUENCES = st.lists(st.tuples(_ATOMS, _COUNTS), min_size=1, max_size=5).map(
    lambda parts: "".join(atom + count for atom, count in parts)
)
_EXPRESSIONS = st.lists(_SEQUENCES, min_size=1, max_size=3).map("|".join)


@settings(max_examples=150, deadline=None)
@given(_EXPRESSIONS, st.text("ab1+9", max_size=8))
def test_expression_means_what_it_means_elsewhere(expression: str, text: str) -> None:
    assert Pattern(f"/{expression}/").matches(text) == bool(re.fullmatch(expression, text))


@settings(max_examples=100, deadline=None)
@given(st.text("/[]{}()|\\^-*+?.,d019a", max_size=20), st.text(max_size=10))
def test_any_text_is_a_pattern_or_a_clear_refusal(text: str, number: str) -> None:
    try:
        pattern = Pattern(text)
    except ValueError as error:
        assert str(error)
    else:
        assert pattern.matches(number) in (True, False)
