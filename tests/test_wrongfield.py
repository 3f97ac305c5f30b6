from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from rtc_server.errors import BadEvent, BadRequest, RtcServerError
from rtc_server.wrongfield import MAX_NAME_CHARS, wrong_field


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    top_k: int = 0


def lower(text: str) -> str:
    if not text.islower():
        raise ValueError("a word is in lower case")
    return text


Word = Annotated[str, AfterValidator(lower)]


class Outer(BaseModel):
    inner: Inner = Inner()
    seed: int = 0
    words: dict[Word, Word] = {}


def told(kind: type[RtcServerError], body: Any) -> RtcServerError:
    with pytest.raises(ValidationError) as found:
        Outer.model_validate(body)
    return wrong_field(kind, found.value, whole="body", known="inner takes top_k", hint="POST {seed?}")


def test_value_is_told_with_its_field_and_the_advice_for_values() -> None:
    error = told(BadRequest, {"seed": "x"})
    assert isinstance(error, BadRequest)
    assert error.message.startswith("seed: ") and error.hint == "POST {seed?}"


def test_unknown_name_is_told_with_those_that_are_known() -> None:
    error = told(BadEvent, {"inner": {"top_p": 1}})
    assert isinstance(error, BadEvent)
    assert (error.message, error.hint) == ("inner.top_p is unknown", "inner takes top_k")


def test_what_is_no_field_has_the_name_of_the_whole() -> None:
    assert told(BadRequest, 7).message.startswith("body: ")


def test_what_a_check_of_ours_says_is_told_in_its_own_words_of_values_and_of_names_alike() -> None:
    error = told(BadRequest, {"words": {"A": "b"}})
    assert error.message == "words.A: a word is in lower case"
    assert told(BadRequest, {"words": {"a": "B"}}).message == "words.a: a word is in lower case"


def test_name_of_any_length_is_cut() -> None:
    assert told(BadRequest, {"inner": {"x" * 500: 1}}).message == f"inner.{'x' * (MAX_NAME_CHARS - 6)} is unknown"
