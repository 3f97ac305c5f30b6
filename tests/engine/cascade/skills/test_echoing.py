from __future__ import annotations

import pytest

from rtc_server.engine.cascade.skills.echoing import count, repeat
from rtc_server.engine.cascade.skills.reply import Memory, Said
from tests.engine.cascade.fakes import NOON


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("Repeat after me, the sky is blue.", "The sky is blue."),
        ("Please repeat after me: are you sure?", "Are you sure?"),
        ("Repeat after me.", "Say repeat after me, and then a sentence."),
    ],
)
def test_it_repeats_what_comes_after_the_request(text: str, repeated: str) -> None:
    reply = repeat(Said.of(text), Memory(), NOON)
    assert reply is not None
    assert reply.sentences == (repeated,)


def test_what_is_repeated_is_bounded() -> None:
    reply = repeat(Said.of("Repeat after me " + "la " * 1000), Memory(), NOON)
    assert reply is not None
    assert len(reply.sentences[0]) <= 241


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Count to three.", ("1, 2, 3.",)),
        ("Can you count from 1 to 7?", ("1, 2, 3, 4, 5.", "6, 7.")),
        ("I want you to count to two", ("1, 2.",)),
        ("Can you count?", ("1, 2, 3, 4, 5.", "6, 7, 8, 9, 10.")),
        ("Count to minus three.", ("I count upwards, from one.",)),
    ],
)
def test_counting(text: str, sentences: tuple[str, ...]) -> None:
    reply = count(Said.of(text), Memory(), NOON)
    assert reply is not None
    assert reply.sentences == sentences


def test_counting_has_an_end() -> None:
    reply = count(Said.of("Count to a million."), Memory(), NOON)
    assert reply is not None
    assert reply.sentences[-2:] == ("46, 47, 48, 49, 50.", "And I had better stop here.")
