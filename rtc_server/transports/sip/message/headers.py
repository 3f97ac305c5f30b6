"""Headers that have a form of their own (RFC 3261 section 20, RFC 4028, RFC 3326, RFC 3262).

``parse`` takes one value, without its name, and raises ValueError where it is malformed. ``str`` gives it back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, Self

from sipmessage import grammar

from rtc_server.transports.sip.message.grammar import (
    HOST,
    PORT,
    QUOTED,
    checked_host,
    checked_port,
    format_params,
    parse_params,
    quote,
    split_list,
    unescape,
)
from rtc_server.transports.sip.message.uri import SipUri

__all__ = [
    "MAX_FORWARDS",
    "CSeq",
    "NameAddr",
    "RAck",
    "Reason",
    "SessionExpires",
    "SipUri",
    "Via",
    "delta_seconds",
    "split_list",
]

MAX_FORWARDS = "70"
"""Of every request of ours (RFC 3261 section 8.1.1.6)."""
MAX_SEQUENCE_NUMBER = (1 << 32) - 1

_VIA = re.compile(
    rf"SIP[ \t]*+/[ \t]*+2\.0[ \t]*+/[ \t]*+({grammar.TOKEN})[ \t]++{HOST}[ \t]*+(?::[ \t]*+{PORT}[ \t]*+)?(;.*)?",
    re.IGNORECASE | re.DOTALL,
)
_BRACKETED = re.compile(rf'(?:{QUOTED}[ \t]*+|([^"<]*+))<([^<>]*+)>(.*)', re.DOTALL)
_BARE = re.compile(r'([^\s<>",;]++)(.*)', re.DOTALL)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*+:[^\s<>]++|\*")
_CSEQ = re.compile(rf"([0-9]{{1,10}})[ \t]++({grammar.TOKEN})")
_RACK = re.compile(rf"([0-9]{{1,10}})[ \t]++([0-9]{{1,10}})[ \t]++({grammar.TOKEN})")
_DELTA = re.compile(r"([0-9]{1,10})[ \t]*+(?:[;(].*)?", re.DOTALL)
_REASON = re.compile(rf"({grammar.TOKEN})[ \t]*+(;.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Via:
    """The way that a request has come, and its response goes back (section 20.42)."""

    transport: str
    host: str
    """An IPv6 address has brackets."""
    port: int | None = None
    params: dict[str, str | None] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: str) -> Self:
        if (found := _VIA.fullmatch(value)) is None:
            raise ValueError("malformed Via")
        transport, host, port, params = found.groups()
        return cls(transport, checked_host(host), checked_port(port), parse_params(params or ""))

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"SIP/2.0/{self.transport} {self.host}{port}{format_params(self.params)}"


@dataclass(frozen=True, slots=True)
class NameAddr:
    """From, To, Contact, Route, Record-Route, Refer-To, P-Asserted-Identity ... (sections 20.10 and 25.1)."""

    uri: str
    """Of any scheme, so as text; ``*`` in a Contact that stands for all."""
    display: str | None = None
    params: dict[str, str | None] = field(default_factory=dict)
    """Of the header: those of the URI are in it."""

    @classmethod
    def parse(cls, value: str) -> Self:
        value = value.strip(" \t")
        if (found := _BRACKETED.fullmatch(value)) is not None:
            quoted, tokens, uri, params = found.groups()
            display = unescape(quoted) if quoted is not None else tokens.strip(" \t")
        elif (found := _BARE.fullmatch(value)) is not None:
            uri, params = found.groups()
            display = ""
        else:
            raise ValueError("malformed address")
        uri = uri.strip(" \t")
        if _URI.fullmatch(uri) is None:
            raise ValueError("an address without a URI")
        return cls(uri, display or None, parse_params(params))

    def __str__(self) -> str:
        if self.uri == "*":
            return "*"
        display = "" if self.display is None else quote(self.display) + " "
        return f"{display}<{self.uri}>{format_params(self.params)}"


@dataclass(frozen=True, slots=True)
class CSeq:
    number: int
    method: str

    @classmethod
    def parse(cls, value: str) -> Self:
        if (found := _CSEQ.fullmatch(value)) is None:
            raise ValueError("malformed CSeq")
        return cls(_sequence_number(found[1]), found[2])

    def __str__(self) -> str:
        return f"{self.number} {self.method}"


@dataclass(frozen=True, slots=True)
class RAck:
    """Which provisional response a PRACK acknowledges (RFC 3262 section 7.2)."""

    response_number: int
    """The RSeq."""
    number: int
    """With `method` the CSeq of the request that the response was for."""
    method: str

    @classmethod
    def parse(cls, value: str) -> Self:
        if (found := _RACK.fullmatch(value)) is None:
            raise ValueError("malformed RAck")
        return cls(_sequence_number(found[1]), _sequence_number(found[2]), found[3])

    def __str__(self) -> str:
        return f"{self.response_number} {self.number} {self.method}"


@dataclass(frozen=True, slots=True)
class SessionExpires:
    """RFC 4028 section 4."""

    seconds: int
    refresher: Literal["uac", "uas"] | None = None

    @classmethod
    def parse(cls, value: str) -> Self:
        digits, semicolon, rest = value.partition(";")
        refresher = (parse_params(semicolon + rest).get("refresher") or "").lower()
        if refresher not in ("", "uac", "uas"):
            raise ValueError(f"refresher {refresher!r}")
        return cls(delta_seconds(digits), "uac" if refresher == "uac" else "uas" if refresher else None)

    def __str__(self) -> str:
        return f"{self.seconds}" if self.refresher is None else f"{self.seconds};refresher={self.refresher}"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a request was sent, such as a BYE (RFC 3326)."""

    protocol: str
    """``SIP``, ``Q.850`` ..."""
    cause: int | None = None
    text: str | None = None

    @classmethod
    def parse(cls, value: str) -> Self:
        if (found := _REASON.fullmatch(value)) is None:
            raise ValueError("malformed Reason")
        params = parse_params(found[2] or "")
        cause = params.get("cause")
        return cls(found[1], None if cause is None else delta_seconds(cause), params.get("text"))

    def __str__(self) -> str:
        cause = "" if self.cause is None else f";cause={self.cause}"
        return f"{self.protocol}{cause}" + ("" if self.text is None else f";text={quote(self.text)}")


def delta_seconds(value: str) -> int:
    """Of Min-SE, Expires, Retry-After: what comes behind the number is left out. Raises: ValueError."""
    if (found := _DELTA.fullmatch(value.strip(" \t"))) is None:
        raise ValueError("not a number of seconds")
    return _sequence_number(found[1])


def _sequence_number(digits: str) -> int:
    number = int(digits)
    if number > MAX_SEQUENCE_NUMBER:
        raise ValueError(f"{number} is more than 32 bits")
    return number
