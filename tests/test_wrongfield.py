from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from rtc_server.errors import BadEvent, BadRequest, RtcServerError
from rtc_server.wrongfield import MAX_NAME_CHARS, wrong_field


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    top_k: int = 0


class Outer(BaseModel):
    inner: Inner = Inner()
    seed: int = 0


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


def test_name_of_any_length_is_cut() -> None:
    assert told(BadRequest, {"inner": {"x" * 500: 1}}).message == f"inner.{'x' * (MAX_NAME_CHARS - 6)} is unknown"
