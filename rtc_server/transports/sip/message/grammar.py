"""What the headers have in common: tokens, quoted strings, lists and parameters (RFC 3261 section 25.1).

Every pattern takes time linear in its input, whatever a stranger sends.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from sipmessage import grammar

MAX_HOST_CHARS = 255
MAX_PARAMS = 64
"""Of one header value, empty ones too."""

TOKEN = re.compile(grammar.TOKEN)
QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
"""A quoted string; its group is what is between the quotes, still escaped. The one of sipmessage ends too late."""
PORT = r"([0-9]{1,5})"
HOST = r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_][A-Za-z0-9_.-]*)"
"""Looser than the RFC, which forbids the names ``p1`` and ``my_pbx``."""

_PARAM = re.compile(rf'[ \t]*+({grammar.TOKEN}+)[ \t]*+(?:=[ \t]*+(?:{QUOTED}|([^;"\s]*+))[ \t]*+)?(?:;|\Z)', re.DOTALL)
_EMPTY_PARAM = re.compile(r"[ \t]*+(?:;|\Z)")
_BARE_VALUE = re.compile(rf"(?:{grammar.TOKEN}|{HOST}(?::[0-9]+)?|[0-9A-Fa-f:.]+)")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_MUST_ESCAPE = re.compile(r'(["\\])')
_LIST_MARK = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[,<>]', re.DOTALL)


def split_list(value: str) -> list[str]:
    """The elements of a comma list, without empty ones. A comma in a quoted string or between angle brackets is none.

    What follows a quote that is never closed is one element.
    """
    if '"' not in value and "<" not in value:
        return [item for part in value.split(",") if (item := part.strip(" \t"))]
    items: list[str] = []
    start, in_brackets = 0, False
    for mark in _LIST_MARK.finditer(value):
        if mark[0] == "<":
            in_brackets = True
        elif mark[0] == ">":
            in_brackets = False
        elif mark[0] == "," and not in_brackets:
            items.append(value[start : mark.start()])
            start = mark.end()
    items.append(value[start:])
    return [item for part in items if (item := part.strip(" \t"))]


def parse_params(text: str) -> dict[str, str | None]:
    """``;lr;ttl=1;reason="a \\"b\\""``: names in lower case, values without quotes. Empty ones are left out.

    Raises: ValueError.
    """
    params: dict[str, str | None] = {}
    text = text.strip(" \t")
    if not text:
        return params
    if text[0] != ";":
        raise ValueError("parameters begin with a semicolon")
    at, end, count = 1, len(text), 0
    while at < end:
        count += 1
        if count > MAX_PARAMS:
            raise ValueError(f"more than {MAX_PARAMS} parameters")
        if (found := _PARAM.match(text, at)) is None:
            if (found := _EMPTY_PARAM.match(text, at)) is None:
                raise ValueError("a malformed parameter")
        else:
            name, quoted, bare = found.groups()
            name = name.lower()
            if name in params:
                raise ValueError(f"two parameters {name}")
            params[name] = bare if quoted is None else unescape(quoted)
        at = found.end()
    return params


def format_params(params: Mapping[str, str | None]) -> str:
    return "".join(f";{name}" if value is None else f";{name}={_value(value)}" for name, value in params.items())


def quote(text: str) -> str:
    return '"' + _MUST_ESCAPE.sub(r"\\\1", text) + '"'


def unescape(text: str) -> str:
    """What is between the quotes of a quoted string, as it is meant."""
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def checked_host(host: str) -> str:
    """Raises: ValueError for an IPv6 reference that is none, or a name that is too long."""
    if host[0] == "[":
        ipaddress.IPv6Address(host[1:-1])
    elif len(host) > MAX_HOST_CHARS:
        raise ValueError("a host name that is too long")
    return host


def checked_port(digits: str | None) -> int | None:
    """Raises: ValueError."""
    if digits is None:
        return None
    port = int(digits)
    if not 0 < port < 65536:
        raise ValueError(f"port {port}")
    return port


def _value(value: str) -> str:
    return value if _BARE_VALUE.fullmatch(value) else quote(value)
