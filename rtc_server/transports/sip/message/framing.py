"""Messages cut out of a stream, by their Content-Length (RFC 3261 sections 7.5 and 18.3, RFC 5626 section 4.4.1)."""

from __future__ import annotations

import enum

from rtc_server.transports.sip.message.message import (
    Fault,
    SipParseError,
    body_length,
    read_head,
    refusal,
    unfold,
)

_END = b"\r\n\r\n"
_CONTENT_LENGTH = (b"content-length", b"l")


class KeepAlive(enum.Enum):
    """What a peer sends to keep the connection open: a double line end is to be answered with a single one."""

    PING = b"\r\n\r\n"
    PONG = b"\r\n"


class StreamFramer:
    """Of one connection. Holds at most one message of `limit_bytes` that is not complete.

    A message without Content-Length has no body: there is no other way to find the next one.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._scanned = 0
        """As far as there is no end of a head."""
        self._needed = 0
        """The length of the message at the front, once its head is there."""

    @property
    def pending(self) -> bool:
        """There is the beginning of something."""
        return bool(self._buffer)

    def feed(self, data: bytes | memoryview) -> None:
        """What has arrived."""
        self._buffer += data

    def next(self) -> bytes | KeepAlive | None:
        """What is complete, one after the other; None: more has to arrive.

        Raises: SipParseError where the end of a message cannot be found, so that nothing behind it can be read.
        """
        buffer = self._buffer
        if not self._needed:
            if bytes(buffer[:4]) in (b"\r", b"\r\n\r"):
                return None
            for keep_alive in KeepAlive:
                if buffer.startswith(keep_alive.value):
                    self._take(len(keep_alive.value))
                    return keep_alive
            end = buffer.find(_END, self._scanned)
            head_bytes = len(buffer) if end < 0 else end
            if head_bytes > self._limit_bytes:
                raise self._error("headers that do not end", 513, head_bytes)
            if end < 0:
                self._scanned = max(0, len(buffer) - len(_END) + 1)
                return None
            self._needed = self._length(end)
        return self._take(self._needed) if len(buffer) >= self._needed else None

    def _length(self, head_bytes: int) -> int:
        """Of the whole message."""
        lines = (line.partition(b":") for line in unfold(bytes(self._buffer[:head_bytes])).split(b"\r\n"))
        values = [value for name, _, value in lines if name.rstrip(b" \t").lower() in _CONTENT_LENGTH]
        try:
            body_bytes = body_length([value.strip(b" \t").decode("latin-1") for value in values]) or 0
        except ValueError as error:
            raise self._error(str(error), 400, head_bytes) from None
        length = head_bytes + len(_END) + body_bytes
        if length > self._limit_bytes:
            raise self._error(f"{length} bytes", 413, head_bytes)
        return length

    def _take(self, length: int) -> bytes:
        taken = bytes(self._buffer[:length])
        del self._buffer[:length]
        self._scanned = self._needed = 0
        return taken

    def _error(self, what: str, status: int, head_bytes: int) -> SipParseError:
        faults = [Fault(what, status)]
        try:
            return refusal(read_head(bytes(self._buffer[:head_bytes]), faults), faults)
        except SipParseError as error:
            return error
