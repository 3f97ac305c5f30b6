from __future__ import annotations

import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from rtc_server.engine.personaplex.tokenizer import Tokenizer, wrap_persona
from rtc_server.errors import CheckpointError, TooLarge

from .goldens import GOLDEN

INFO = json.loads((GOLDEN / "session_info.json").read_text())
TEACHER = "You are a wise and friendly teacher."


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(GOLDEN / "spm_tiny.model")


@pytest.mark.parametrize("text", INFO["spm_examples"])
def test_texts_have_the_ids_that_the_reference_gives_them(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.encode(text) == INFO["spm_examples"][text]


def test_ids_are_written_and_shown_as_the_reference_does(tokenizer: Tokenizer) -> None:
    for token, piece in INFO["pieces"].items():
        assert tokenizer.piece(int(token)) == piece
        assert tokenizer.pieces[int(token)] == INFO["piece_text"][token]


def test_control_ids_are_never_shown(tokenizer: Tokenizer) -> None:
    assert tokenizer.pieces[:4] == ("", "", "", "")
    assert len(tokenizer.pieces) == tokenizer.size == 300


def test_a_persona_is_wrapped_once() -> None:
    assert wrap_persona(TEACHER) == f"<system> {TEACHER} <system>"
    assert wrap_persona(f"  {TEACHER}\n") == wrap_persona(TEACHER)
    assert wrap_persona(wrap_persona(TEACHER)) == wrap_persona(TEACHER)
    assert wrap_persona("<system> open") == "<system> <system> open <system>"


@pytest.mark.parametrize("empty", ["", " \n\t ", None])
def test_no_persona_is_no_token(tokenizer: Tokenizer, empty: str | None) -> None:
    assert tokenizer.persona(empty, most=0) == ()


def test_the_ids_of_a_persona(tokenizer: Tokenizer) -> None:
    assert list(tokenizer.persona(TEACHER, most=14)) == INFO["tokens"]


def test_a_persona_over_the_limit_is_refused_with_both_numbers_and_never_cut(tokenizer: Tokenizer) -> None:
    with pytest.raises(TooLarge, match="14 tokens long.* at most 13 "):
        tokenizer.persona(TEACHER, most=13)
    with pytest.raises(TooLarge, match="at most 2900 "):
        tokenizer.persona("You are a patient museum guide. " * 1400, most=2900)


@given(st.text(alphabet=st.characters()))
def test_any_string_has_ids_of_the_vocabulary(tokenizer: Tokenizer, text: str) -> None:
    """Lone surrogates too: a JSON body can carry them."""
    assert all(0 <= token < tokenizer.size for token in tokenizer.persona(text, most=10_000))


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"<html>not found</html>"])
def test_a_file_that_is_no_vocabulary_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokenizer_spm.model"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"tokenizer_spm\.model cannot be read"):
        Tokenizer(path)


def test_a_truncated_or_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "spm.model"
    with pytest.raises(CheckpointError, match=r"spm\.model"):
        Tokenizer(path)
    path.write_bytes((GOLDEN / "spm_tiny.model").read_bytes()[:2000])
    with pytest.raises(CheckpointError, match=r"spm\.model"):
        Tokenizer(path)


def test_a_vocabulary_larger_than_the_model_is_refused() -> None:
    Tokenizer(GOLDEN / "spm_tiny.model", text_card=300)
    with pytest.raises(CheckpointError, match="300 pieces, but the language model knows 299"):
        Tokenizer(GOLDEN / "spm_tiny.model", text_card=299)
