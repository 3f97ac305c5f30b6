"""Requests and responses, and how they are written (RFC 3261 section 7).

Text is UTF-8; a header that is not is taken for Latin-1, which phones send, and goes out as UTF-8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from rtc_server.transports.sip.message.fields import Headers, key_of
from rtc_server.transports.sip.message.grammar import TOKEN

__all__ = ["Headers", "Request", "Response", "SipParseError", "parse"]

MAX_MESSAGE_BYTES = 65535
MAX_HEADERS = 256
MAX_LINE_CHARS = 8192
"""Unfolded, the name and the start line too."""
MAX_METHOD_CHARS = 64

SINGLE = frozenset(("from", "to", "call-id", "cseq", "max-forwards", "content-type"))
"""A message with two of one of these means different things to different readers, so it is refused."""

_END = b"\r\n\r\n"
_FOLD = re.compile(rb"[ \t]*+\r\n[ \t]++")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_REQUEST_LINE = re.compile(r"(\S+) (.*) SIP/([0-9]{1,3}\.[0-9]{1,3})([ \t]*)", re.IGNORECASE)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"]+")
_STATUS_LINE = re.compile(r"SIP/2\.0 ([1-6][0-9][0-9])(?: (.*))?", re.IGNORECASE)
_LENGTH = re.compile(r"[0-9]{1,9}")


@dataclass(slots=True)
class Request:
    """Raises: ValueError for a method or URI that would not stay on its line."""

    method: str
    uri: str
    """The request URI, as it is written."""
    headers: Headers = field(default_factory=Headers)
    body: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if _CONTROL.search(self.method) or _CONTROL.search(self.uri):
            raise ValueError("a control character in a request line")

    def to_bytes(self) -> bytes:
        """With the Content-Length of its body."""
        return _to_bytes(f"{self.method} {self.uri} SIP/2.0", self.headers, self.body)


@dataclass(slots=True)
class Response:
    """Raises: ValueError for a reason that would not stay on its line."""

    status: int
    reason: str
    headers: Headers = field(default_factory=Headers)
    body: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if _CONTROL.search(self.reason):
            raise ValueError("a control character in a status line")

    def to_bytes(self) -> bytes:
        """With the Content-Length of its body."""
        return _to_bytes(f"SIP/2.0 {self.status} {self.reason}", self.headers, self.body)


class SipParseError(ValueError):
    """What has come is no message.

    Args:
        status: to answer it with.
        partial: the request, as far as it could be read, when it can be answered at all. A header that was malformed
            is left out; of one that may be there once only, the first is kept.
    """

    def __init__(self, message: str, status: int = 400, partial: Request | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.partial = partial


def parse(datagram: bytes) -> Request | Response:
    """Read what a datagram holds, or one message of a stream. Empty lines before it are skipped (section 7.5).

    Raises: SipParseError, and nothing else.
    """
    faults: list[Fault] = []
    if len(datagram) > MAX_MESSAGE_BYTES:
        faults.append(Fault(f"{len(datagram)} bytes", 513))
    head, end, rest = datagram[:MAX_MESSAGE_BYTES].lstrip(b"\r\n").partition(_END)
    if not end:
        faults.append(Fault("no empty line behind the headers"))
    message = read_head(head, faults)
    try:
        length = body_length(message.headers.all("Content-Length"))
    except ValueError as error:
        faults.append(Fault(str(error)))
    else:
        # Section 18.3: what comes behind the body is left out.
        message.body = rest[:length]
        if length is not None and length > len(rest):
            faults.append(Fault(f"Content-Length {length}, and {len(rest)} bytes"))
    if faults:
        raise refusal(message, faults)
    return message


class Fault(NamedTuple):
    what: str
    status: int = 400


def read_head(head: bytes, faults: list[Fault]) -> Request | Response:
    """Read the start line and the headers, without the empty line, and add what is wrong with them to `faults`.

    What is malformed is left out. Raises: SipParseError without a start line that says what it is.
    """
    start, *lines = _decoded_lines(unfold(head))
    message = _start_line(start, faults)
    if len(lines) > MAX_HEADERS:
        faults.append(Fault(f"more than {MAX_HEADERS} header lines"))
    for line in lines[:MAX_HEADERS]:
        name, colon, value = line.partition(":")
        try:
            if not colon or len(line) > MAX_LINE_CHARS:
                raise ValueError("a header line without a colon, or too long")
            name = name.rstrip(" \t")
            if key_of(name) in SINGLE and name in message.headers:
                raise ValueError(f"two headers {name}")
            message.headers.add(name, value)
        except ValueError as error:
            faults.append(Fault(str(error)))
    return message


def refusal(message: Request | Response, faults: list[Fault]) -> SipParseError:
    what, status = faults[0]
    return SipParseError(what, status, message if isinstance(message, Request) else None)


def unfold(head: bytes) -> bytes:
    """A line that begins with white space belongs to the one before it (section 7.3.1)."""
    return _FOLD.sub(b" ", head) if b"\r\n " in head or b"\r\n\t" in head else head


def body_length(values: list[str]) -> int | None:
    """What the Content-Length headers say together; None: there is none. Raises: ValueError."""
    lengths = {int(value) if _LENGTH.fullmatch(value) else -1 for value in values}
    if len(lengths) > 1 or -1 in lengths:
        raise ValueError("malformed Content-Length")
    return lengths.pop() if lengths else None


def _decoded_lines(head: bytes) -> list[str]:
    try:
        return head.decode().split("\r\n")
    except UnicodeDecodeError:
        return [_decoded(line) for line in head.split(b"\r\n")]


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _start_line(line: str, faults: list[Fault]) -> Request | Response:
    """Raises: SipParseError where it cannot be told what it is; a malformed response is no use to anyone either."""
    if _CONTROL.search(line) is not None:
        raise SipParseError("a control character in the start line")
    if (response := _STATUS_LINE.fullmatch(line[:MAX_LINE_CHARS])) is not None:
        return Response(int(response[1]), response[2] or "")
    if (request := _REQUEST_LINE.fullmatch(line[: 2 * MAX_LINE_CHARS])) is None:
        raise SipParseError("neither a request nor a response")
    method, uri, version, behind = request.groups()
    if version != "2.0":
        faults.append(Fault(f"SIP/{version}", 505))
    elif len(line) > MAX_LINE_CHARS:
        faults.append(Fault("a request URI that is too long", 414))
    elif behind or TOKEN.fullmatch(method) is None or len(method) > MAX_METHOD_CHARS or _URI.fullmatch(uri) is None:
        faults.append(Fault("malformed request line"))
    return Request(method, uri)


def _to_bytes(start_line: str, headers: Headers, body: bytes) -> bytes:
    lines = [start_line]
    lines += [f"{name}: {value}" for name, value in headers.items() if name != "Content-Length"]
    lines += (f"Content-Length: {len(body)}", "", "")
    return "\r\n".join(lines).encode() + body
