"""Session descriptions of phones and trunks: a tolerant reader and a strict writer (RFC 8866).

Phones end lines with LF alone, pad with spaces and leave lines out. All of it is read; what is written is by the book.
Nothing is resolved and nothing is judged here: `offeranswer` says what a description is good for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rtc_server.errors import BadOffer

MAX_SDP_BYTES = 16 * 1024
MAX_LINES = 500
MAX_LINE_CHARS = 1024
MAX_SECTIONS = 16

Attribute = tuple[str, str | None]
"""``("ptime", "20")`` is `a=ptime:20`; ``("sendrecv", None)`` is `a=sendrecv`. Names in lower case."""

_LINE_END = re.compile(r"\r\n|\n|\r")
_WORD = re.compile(r"[!-~]{1,255}")
_PORT = re.compile(r"([0-9]{1,5})(?:/[0-9]{1,5})?")
_NOT_QUOTABLE = re.compile(r"[^ !#-\[\]-~]")  # of RFC 3261 section 25.1, `quoted-string`
_MAX_WARNING_CHARS = 200


class MediaRefused(BadOffer):
    """A description that cannot be taken. What was agreed on before it still holds.

    `status` is the response to it: 400 for one that is wrong, 488 for one that asks for what is not done here, 491
    while an offer of ours waits for its answer. `warning_code` is of RFC 3261 section 20.43.
    """

    def __init__(self, status: int, message: str, warning_code: int = 399) -> None:
        super().__init__(message)
        self.status = status
        self.warning_code = warning_code

    def warning(self, agent: str) -> str:
        """The value of a Warning header; `agent` is our host name or address."""
        text = _NOT_QUOTABLE.sub("?", self.message)[:_MAX_WARNING_CHARS]
        return f'{self.warning_code} {agent} "{text}"'


@dataclass(frozen=True, slots=True)
class Origin:
    """The o= line that we write. A change of the description makes `version` one more (RFC 3264 section 8)."""

    session_id: int
    version: int
    address: str
    """Also the c= line's, for all sections."""


@dataclass(frozen=True, slots=True)
class MediaSection:
    """One m= line and what stands below it."""

    kind: str
    port: int
    profile: str
    formats: tuple[str, ...]
    attributes: tuple[Attribute, ...] = ()
    address: str | None = None
    """Of its c= line, else of the session's; it may be a host name."""
    session_attributes: tuple[Attribute, ...] = ()
    """Hold for what the section does not say itself."""

    def values(self, name: str) -> list[str]:
        """All values of an attribute, the section's or else the session's; "" for one without a value."""
        own = [value or "" for key, value in self.attributes if key == name]
        return own or [value or "" for key, value in self.session_attributes if key == name]

    def value(self, name: str) -> str | None:
        """The first of `values`."""
        return next(iter(self.values(name)), None)

    @property
    def direction(self) -> str:
        """As seen by who wrote it: ``sendrecv`` where nothing is said (RFC 8866 section 6.7)."""
        names = {"sendrecv", "sendonly", "recvonly", "inactive"}
        return next((key for key, _ in (*self.attributes, *self.session_attributes) if key in names), "sendrecv")

    def rejected(self) -> MediaSection:
        """What answers it where it is not taken: port 0, everything else of the m= line as it was (RFC 3264 6)."""
        return MediaSection(self.kind, 0, self.profile, self.formats)


def read_description(body: bytes) -> tuple[MediaSection, ...]:
    """The media sections of a description, in order; work and memory are bounded by the MAX_ constants.

    Raises: MediaRefused with status 400 for everything that is not SDP.
    """
    session_address: str | None = None
    session: list[Attribute] = []
    sections: list[_Draft] = []
    for kind, value in _lines(body):
        if kind == "m":
            if len(sections) == MAX_SECTIONS:
                raise MediaRefused(400, f"more than {MAX_SECTIONS} media sections")
            sections.append(_media_line(value))
        elif kind == "c":
            address = _connection_address(value)
            if not sections:
                session_address = session_address or address
            else:
                sections[-1].address = sections[-1].address or address
        elif kind == "a":
            (sections[-1].attributes if sections else session).append(_attribute(value))
    return tuple(draft.finish(session_address, tuple(session)) for draft in sections)


def write_description(origin: Origin, sections: Iterable[MediaSection]) -> bytes:
    """A description of one address; lines end with CRLF."""
    connection = f"IN IP{6 if ':' in origin.address else 4} {origin.address}"
    lines = ["v=0", f"o=- {origin.session_id} {origin.version} {connection}", "s=-", f"c={connection}", "t=0 0"]
    for section in sections:
        lines.append(f"m={section.kind} {section.port} {section.profile} {' '.join(section.formats)}")
        lines += [f"a={name}" if value is None else f"a={name}:{value}" for name, value in section.attributes]
    return ("\r\n".join(lines) + "\r\n").encode()


def whole_number(text: str | None, least: int, most: int) -> int | None:
    """A decimal number out of an attribute; None for anything else, and outside [least, most]."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    value = int(text)
    return value if least <= value <= most else None


def names_of(sections: Sequence[MediaSection]) -> str:
    """What sections hold, for a message to a person."""
    return ", ".join(dict.fromkeys(f"{section.kind} {section.profile}" for section in sections)) or "nothing"


@dataclass(slots=True)
class _Draft:
    """A section while its lines are read."""

    kind: str
    port: int
    profile: str
    formats: tuple[str, ...]
    attributes: list[Attribute]
    address: str | None = None

    def finish(self, address: str | None, session: tuple[Attribute, ...]) -> MediaSection:
        own = tuple(self.attributes)
        return MediaSection(self.kind, self.port, self.profile, self.formats, own, self.address or address, session)


def _lines(body: bytes) -> list[tuple[str, str]]:
    """(type, value) of each line. Lines without a type are passed over."""
    if len(body) > MAX_SDP_BYTES:
        raise MediaRefused(400, f"session description of {len(body)} bytes is over the limit of {MAX_SDP_BYTES}")
    lines = [line.strip(" \t\0") for line in _LINE_END.split(body.decode("utf-8", "replace"))]
    lines = [line for line in lines if line]
    if len(lines) > MAX_LINES or any(len(line) > MAX_LINE_CHARS for line in lines):
        raise MediaRefused(400, f"session description of over {MAX_LINES} lines or {MAX_LINE_CHARS} characters a line")
    pairs = [
        (kind.strip().lower(), value.strip()) for kind, equals, value in (x.partition("=") for x in lines) if equals
    ]
    if pairs[:1] != [("v", "0")]:
        raise MediaRefused(400, "not a session description: it must begin with v=0")
    return pairs


def _media_line(value: str) -> _Draft:
    words = value.split()
    port = _PORT.fullmatch(words[1]) if len(words) >= 3 else None
    if port is None or int(port[1]) > 65535 or not all(_WORD.fullmatch(word) for word in words):
        raise MediaRefused(400, "malformed m= line")
    # A refused section without formats names nothing that could be missed, but an answer has to repeat something.
    formats = tuple(words[3:]) or (("0",) if int(port[1]) == 0 else ())
    if not formats:
        raise MediaRefused(400, "m= line without formats")
    return _Draft(words[0].lower(), int(port[1]), words[2], formats, [])


def _connection_address(value: str) -> str:
    """Without the time to live and the count of a multicast address (RFC 8866 section 5.7)."""
    words = value.split()
    address = words[2].partition("/")[0] if len(words) >= 3 else ""
    if not _WORD.fullmatch(address):
        raise MediaRefused(400, "malformed c= line")
    return address


def _attribute(value: str) -> Attribute:
    name, colon, rest = value.partition(":")
    return name.strip().lower(), rest.strip() if colon else None
