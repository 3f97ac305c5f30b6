"""What is wrong with a body that others have sent, as one of our errors."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from rtc_server.errors import RtcServerError

MAX_NAME_CHARS = 80
_OF_A_KEY = "[key]"
"""How pydantic marks that a name of a mapping is wrong, not its value."""

_E = TypeVar("_E", bound=RtcServerError)


def wrong_field(kind: type[_E], found: ValidationError, *, whole: str, known: str, hint: str = "") -> _E:
    """The first field that is wrong.

    Args:
        whole: named where it is no field in particular.
        known: the advice where a name is not known; `hint` is the one for a value.
    """
    first = found.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"] if part != _OF_A_KEY)[:MAX_NAME_CHARS] or whole
    if first["type"] == "extra_forbidden":
        return kind(f"{where} is unknown", hint=known)
    return kind(f"{where}: {first['msg'].removeprefix('Value error, ')}", hint=hint)
