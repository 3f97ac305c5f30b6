"""The headers of a message, in order, by name (RFC 3261 sections 7.3 and 20)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sipmessage.message import COMPACT_FORMS

from rtc_server.transports.sip.message.grammar import TOKEN, split_list

LISTS = frozenset(
    name.lower()
    for name in (
        *("Accept", "Accept-Contact", "Accept-Encoding", "Accept-Language", "Alert-Info", "Allow", "Allow-Events"),
        *("Call-Info", "Contact", "Content-Encoding", "Content-Language", "Diversion", "Error-Info", "History-Info"),
        *("In-Reply-To", "P-Asserted-Identity", "P-Preferred-Identity", "Path", "Privacy", "Proxy-Require", "Reason"),
        *("Record-Route", "Reject-Contact", "Request-Disposition", "Require", "Route", "Security-Client"),
        *("Security-Server", "Security-Verify", "Service-Route", "Supported", "Unsupported", "Via", "Warning"),
    )
)
"""Those whose grammar is a comma list. Elsewhere a comma is part of the value: in Date, Subject and every digest."""
NAMES = {
    **COMPACT_FORMS,
    **{name.lower(): name for name in COMPACT_FORMS.values()},
    **{
        name.lower(): name
        for name in (
            *("Accept", "Allow", "Authorization", "CSeq", "Date", "Expires", "Max-Forwards", "Min-SE", "Privacy"),
            *("P-Asserted-Identity", "Proxy-Authenticate", "Proxy-Authorization", "RAck", "Reason", "Record-Route"),
            *("Replaces", "Require", "Retry-After", "Route", "RSeq", "Server", "Timestamp", "Unsupported"),
            *("User-Agent", "Warning", "WWW-Authenticate"),
        )
    },
}
"""How a name is spelt, by its lower case or compact form. Another one is left as it came."""

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Headers:
    """A list of names and values. Names are compared without case, and compact forms are expanded."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields: list[tuple[str, str, str]] = []
        """The name in lower case, the name, the value."""

    def get(self, name: str) -> str | None:
        """The first value; of a list its first element. None: there is no such header."""
        key = key_of(name)
        for other, _, value in self._fields:
            if other == key:
                return next(iter(split_list(value)), "") if key in LISTS and "," in value else value
        return None

    def all(self, name: str) -> list[str]:
        """Every value, in order; the elements of lists one by one, whether in one line or in many."""
        key = key_of(name)
        values = [value for other, _, value in self._fields if other == key]
        return [item for value in values for item in split_list(value)] if key in LISTS else values

    def add(self, name: str, value: str) -> None:
        """Add a line at the end. Raises: ValueError for what would not stay one line, or a name that is no token."""
        self._fields.append(_checked(name, value))

    def set(self, name: str, *values: str) -> None:
        """Replace all lines of this name, where the first one was, else at the end. Raises: ValueError as `add`."""
        key = key_of(name)
        new = [_checked(name, value) for value in values]
        at = next((index for index, field in enumerate(self._fields) if field[0] == key), len(self._fields))
        kept = [field for field in self._fields[at:] if field[0] != key]
        self._fields[at:] = new + kept

    def remove(self, name: str) -> None:
        """Without a word if there is no such header."""
        key = key_of(name)
        self._fields = [field for field in self._fields if field[0] != key]

    def items(self) -> Iterator[tuple[str, str]]:
        """Every line, in order: lists as they stand."""
        return ((name, value) for _, name, value in self._fields)

    def __contains__(self, name: str) -> bool:
        key = key_of(name)
        return any(field[0] == key for field in self._fields)

    def __eq__(self, other: object) -> bool:
        return self._fields == other._fields if isinstance(other, Headers) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Headers({[field[1] for field in self._fields]})"


def key_of(name: str) -> str:
    """Equal for names that mean the same header."""
    key = name.lower()
    return NAMES.get(key, key).lower() if len(key) == 1 else key


def _checked(name: str, value: str) -> tuple[str, str, str]:
    known = NAMES.get(name.lower())
    if known is None:
        if TOKEN.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no header name")
        known = name
    if _CONTROL.search(value) is not None:
        raise ValueError(f"a control character in {known}")
    return known.lower(), known, value.strip(" \t")
