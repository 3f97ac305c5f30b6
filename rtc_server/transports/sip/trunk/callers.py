"""Who calls whom, as an INVITE says it. All of it is a stranger's text: short, printable, and never a command.

A withheld number stays withheld: with ``Privacy: id`` or ``user`` (RFC 3323, RFC 3325) neither From nor a trusted
P-Asserted-Identity gives one.
"""

from __future__ import annotations

import re

from rtc_server.transports.sip.message.headers import NameAddr, SipUri
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.trunk.trunks import Trunk

MAX_NUMBER_CHARS = 64
MAX_METADATA = 16
MAX_METADATA_CHARS = 256

_PHONE = re.compile(r"\+?[().\- ]*+[0-9][0-9().\- ]*+")
_SEPARATORS = str.maketrans("", "", "().- ")
_NOBODY = frozenset({"anonymous", "unknown", "unavailable", "restricted", "private", "withheld"})
_HIDING = frozenset({"id", "user", "header"})


def caller_of(request: Request, trunk: Trunk) -> str | None:
    """Who calls, a phone number without visual separators or a user name: what a trusted trunk asserts, else what From
    says. None: withheld, or there is none."""
    if _privacy(request) & _HIDING:
        return None
    if trunk.trusted:
        asserted = [caller for value in request.headers.all("P-Asserted-Identity") if (caller := _caller(value))]
        if asserted:
            return asserted[0]
    return _caller(request.headers.get("From") or "")


def callee_of(request: Request) -> str:
    """The number called: the user part of the request URI, else of To; empty where neither has one."""
    return number_of(request.uri) or number_of(_name_addr(request.headers.get("To") or "").uri) or ""


def metadata_of(request: Request, trunk: Trunk) -> dict[str, str]:
    """The headers that the trunk's settings name, by the names they have there."""
    found = ((name, request.headers.get(name)) for name in trunk.header_names[:MAX_METADATA])
    return {name: printable(value, MAX_METADATA_CHARS) for name, value in found if value is not None}


def number_of(uri: str) -> str | None:
    """The user part of a sip:, sips: or tel: URI without its parameters; None where there is none."""
    try:
        return _number(SipUri.parse(uri))
    except ValueError:
        return None


def printable(text: str, limit: int) -> str:
    """Without control and format characters, and no longer than `limit` characters."""
    return "".join(one for one in text[: 4 * limit] if one.isprintable()).strip()[:limit]


def _caller(value: str) -> str | None:
    try:
        uri = SipUri.parse(_name_addr(value).uri)
    except ValueError:
        return None
    number = _number(uri)
    withheld = uri.host.lower() == "anonymous.invalid" or (number or "").lower() in _NOBODY
    return None if withheld else number


def _number(uri: SipUri) -> str | None:
    number = printable((uri.user or "").partition(";")[0], MAX_NUMBER_CHARS)
    # RFC 3966 section 5.3: separators mean nothing in a phone number. In a name they do.
    return (number.translate(_SEPARATORS) if _PHONE.fullmatch(number) else number) or None


def _name_addr(value: str) -> NameAddr:
    try:
        return NameAddr.parse(value)
    except ValueError:
        return NameAddr("", None, {})


def _privacy(request: Request) -> set[str]:
    values = request.headers.all("Privacy")
    return {token.strip().lower() for value in values for token in re.split("[;,]", value)}
