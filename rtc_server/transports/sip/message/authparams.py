"""How challenges and credentials are written (RFC 3261 section 25.1, RFC 7235 section 2.1, RFC 7616)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sipmessage import grammar

from rtc_server.transports.sip.message.grammar import QUOTED, quote, unescape

MAX_CHARS = 4096
"""Of a header value. A longer one is malformed."""
MAX_PARAMS = 32

_BARE = frozenset(("algorithm", "nc", "stale"))
"""Written without quotes, always."""
_SCHEME = re.compile(rf"[ \t,]*+({grammar.TOKEN})[ \t]++(?={grammar.TOKEN}[ \t]*+=)")
_PARAM = re.compile(rf'[ \t,]*+({grammar.TOKEN})[ \t]*+=[ \t]*+(?:{QUOTED}|([^\s",]*+))[ \t]*+(?=,|\Z)', re.DOTALL)

AuthParams = dict[str, str]
"""Names in lower case, values without quotes."""


def parse(value: str) -> list[tuple[str, AuthParams]]:
    """Every scheme in lower case, with its parameters: a challenge header may hold several, credentials are one.

    Raises: ValueError.
    """
    if len(value) > MAX_CHARS:
        raise ValueError("an authentication header that is too long")
    found: list[tuple[str, AuthParams]] = []
    at = 0
    while (scheme := _SCHEME.match(value, at)) is not None:
        params: AuthParams = {}
        found.append((scheme[1].lower(), params))
        at = scheme.end()
        while (param := _PARAM.match(value, at)) is not None:
            name, quoted, bare = param.groups()
            if name.lower() in params or len(params) >= MAX_PARAMS:
                raise ValueError(f"two parameters {name}, or too many")
            params[name.lower()] = bare if quoted is None else unescape(quoted)
            at = param.end()
    if not found or value[at:].strip(" \t,"):
        raise ValueError("malformed authentication header")
    return found


def digests(values: list[str]) -> Iterator[AuthParams]:
    """The Digest challenges of these header values. What is malformed, or of another scheme, is left out."""
    for value in values:
        try:
            parsed = parse(value)
        except ValueError:
            continue
        yield from (params for scheme, params in parsed if scheme == "digest")


def format_challenge(params: Mapping[str, str]) -> str:
    """``qop`` in quotes: a list may stand there."""
    return _format(params, _BARE)


def format_credentials(params: Mapping[str, str]) -> str:
    """``qop`` without quotes (RFC 3261 section 22.4)."""
    return _format(params, _BARE | {"qop"})


def _format(params: Mapping[str, str], bare: frozenset[str]) -> str:
    return "Digest " + ", ".join(f"{name}={value if name in bare else quote(value)}" for name, value in params.items())
