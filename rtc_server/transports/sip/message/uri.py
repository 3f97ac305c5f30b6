"""Whom a request is for, or about: SIP and SIPS URIs (RFC 3261 section 19.1), telephone numbers (RFC 3966)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote, unquote

from sipmessage import grammar

from rtc_server.transports.sip.message.grammar import HOST, PORT, checked_host, checked_port

MAX_CHARS = 2048
MAX_PARAMS = 64

_PARAMS = r'(;[^\s?<>"]*)?'
_SIP = re.compile(
    rf'(sips?):(?:([^\s@:<>"]*)(?::([^\s@<>"]*))?@)?{HOST}(?::{PORT})?{_PARAMS}(?:\?([^\s<>"]*))?', re.IGNORECASE
)
_TEL = re.compile(rf"tel:([0-9A-Fa-f*#+().-]+){_PARAMS}", re.IGNORECASE)
_HEADER_SAFE = grammar.C_UNRESERVED + "[]/?:+$"


@dataclass(frozen=True, slots=True)
class SipUri:
    """``sip:user:password@host:port;params?headers`` or ``tel:number;params``; everything without its %-escapes."""

    scheme: str
    """``sip``, ``sips`` or ``tel``."""
    user: str | None
    """Of a tel URI the number, as it is written."""
    host: str
    """An IPv6 address has brackets. Empty in a tel URI."""
    port: int | None = None
    params: dict[str, str | None] = field(default_factory=dict)
    """Names in lower case."""
    headers: dict[str, str] = field(default_factory=dict)
    """What a request to this URI is to have, as ``Replaces`` in a Refer-To (section 19.1.1)."""
    password: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises: ValueError for what is malformed, or of another scheme."""
        if len(text) > MAX_CHARS:
            raise ValueError(f"a URI of {len(text)} characters")
        if (tel := _TEL.fullmatch(text)) is not None:
            return cls("tel", tel[1], "", params=_parse_params(tel[2]))
        if (sip := _SIP.fullmatch(text)) is None:
            raise ValueError("not a SIP URI")
        scheme, user, password, host, port, params, headers = sip.groups()
        return cls(
            scheme.lower(),
            unquote(user) if user else None,
            checked_host(host),
            checked_port(port),
            _parse_params(params),
            _parse_headers(headers),
            None if password is None else unquote(password),
        )

    def __str__(self) -> str:
        params = "".join(f";{_escaped(name, value, grammar.C_URI_PARAM_SAFE)}" for name, value in self.params.items())
        if self.scheme == "tel":
            return f"tel:{self.user}{params}"
        user = ""
        if self.user is not None:
            password = "" if self.password is None else ":" + quote(self.password, safe=grammar.C_PASSWORD_SAFE)
            user = quote(self.user, safe=grammar.C_USER_SAFE) + password + "@"
        port = "" if self.port is None else f":{self.port}"
        headers = "&".join(_escaped(name, value, _HEADER_SAFE) for name, value in self.headers.items())
        return f"{self.scheme}:{user}{self.host}{port}{params}{'?' if headers else ''}{headers}"


def _parse_params(text: str | None) -> dict[str, str | None]:
    params: dict[str, str | None] = {}
    for part in _parts(text, ";"):
        name, equals, value = part.partition("=")
        name = unquote(name).lower()
        if name in params:
            raise ValueError("a URI parameter that is there twice")
        params[name] = unquote(value) if equals else None
    return params


def _parse_headers(text: str | None) -> dict[str, str]:
    parts = (part.partition("=") for part in _parts(text, "&"))
    return {unquote(name): unquote(value) for name, _, value in parts}


def _parts(text: str | None, separator: str) -> list[str]:
    """Without empty ones. Raises: ValueError."""
    parts = [part for part in (text or "").split(separator) if part]
    if len(parts) > MAX_PARAMS:
        raise ValueError(f"more than {MAX_PARAMS} URI parameters")
    return parts


def _escaped(name: str, value: str | None, safe: str) -> str:
    return quote(name, safe=safe) if value is None else f"{quote(name, safe=safe)}={quote(value, safe=safe)}"
