from __future__ import annotations

from collections.abc import Iterable

import hypothesis.strategies as st
from hypothesis import given

from rtc_server.engine.personaplex.text import TextAssembler, shown

VOCABULARY = [
    "",
    *map(shown, ["\u2581I", "\u2581caf\u00e9", "\u2581end", "s"]),
    *(bytes([byte]) for byte in range(256)),
]
FIRST_BYTE = 5


def events(tokens: Iterable[int]) -> list[str]:
    """What each token shows, where it shows anything."""
    text = TextAssembler(VOCABULARY)
    return [part for token in tokens if (part := text.feed(token))]


def of_bytes(raw: bytes) -> list[int]:
    return [FIRST_BYTE + byte for byte in raw]


def test_ordinary_pieces_are_shown_as_they_come() -> None:
    assert events([1, 2, 4, 3]) == [" I", " caf\u00e9", "s", " end"]


def test_pieces_are_joined_to_characters_and_padding_does_not_break_one() -> None:
    """An emoji over four steps, a letter of two bytes with padding in between, and one that never gets its third."""
    smile, letter, unfinished = "\U0001f600".encode(), "\u00e9".encode(), "\u20ac".encode()[:2]
    tokens = [1, *of_bytes(smile), 2, *of_bytes(letter[:1]), 0, *of_bytes(letter[1:]), *of_bytes(unfinished), 3]
    assert events(tokens) == [" I", "\U0001f600", " caf\u00e9", "\u00e9", " end"]


def test_an_unfinished_character_is_dropped_by_the_next_one_too() -> None:
    assert events([*of_bytes(b"\xe2\x82"), *of_bytes("\u00e9".encode())]) == ["\u00e9"]


def test_padding_and_ids_out_of_range_are_silent() -> None:
    assert events([0, -2, -1, len(VOCABULARY), 1 << 40]) == []


def test_conversations_do_not_mix() -> None:
    one, other = TextAssembler(VOCABULARY), TextAssembler(VOCABULARY)
    first, second = of_bytes("\u00e9".encode())
    assert (one.feed(first), other.feed(second), one.feed(second)) == ("", "", "\u00e9")


def test_how_a_piece_is_written() -> None:
    assert shown("<0xE2>") == b"\xe2"
    assert shown("<0xe2>") == b"\xe2"
    assert shown("<0xE2>s") == "<0xE2>s"
    assert shown("\u2581a\u2581b") == " a b"


@given(st.lists(st.integers(-5, len(VOCABULARY) + 5)))
def test_whatever_comes_each_string_is_whole(tokens: list[int]) -> None:
    for text in events(tokens):
        text.encode()
        assert "\ufffd" not in text and "<0x" not in text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_from_its_bytes(text: str) -> None:
    assert "".join(events(of_bytes(text.encode()))) == text
