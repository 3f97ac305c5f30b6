"""Redundant audio: a packet that repeats the ones before it (RFC 2198).

A payload is a list of headers, oldest copy first, the packet's own audio (the *primary*) last, and then their data in
the same order. A copy's header is 4 bytes: another one follows (1 bit), payload type (7), how much earlier its
timestamp is (14), length (10). The primary's is one byte; its data is what remains.

Pure functions on bytes. RED inside RED is not looked into: whoever reads the blocks knows which payload types it takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MAX_OFFSET = (1 << 14) - 1
"""Units of the RTP clock: 341 ms at 48 kHz."""
MAX_COPY_BYTES = (1 << 10) - 1
MAX_COPIES = 16
"""More than any sender has use for; a payload that claims more is refused before its data is looked at."""

_FOLLOWS = 0x80
_COPY_HEADER_BYTES = 4


class MalformedRed(ValueError):
    """A payload that is no RED: headers or data are cut off, or there are too many of them."""


class Block(NamedTuple):
    """The audio of one packet."""

    payload_type: int
    timestamp_offset: int
    """How much earlier than the packet's own timestamp; 0 for the primary."""
    payload: bytes


def wrap(payload_type: int, primary: bytes, copies: Iterable[tuple[int, bytes]] = ()) -> bytes:
    """One payload out of `primary` and `copies` of earlier ones, all of the same `payload_type`.

    Args:
        copies: (timestamp offset, payload), newest first. What does not fit its header is left out, and so is what is
            empty.
    """
    headers, data = bytearray(), bytearray()
    fitting = [copy for copy in copies if 0 < copy[0] <= MAX_OFFSET and 0 < len(copy[1]) <= MAX_COPY_BYTES]
    for offset, payload in reversed(fitting[:MAX_COPIES]):
        headers.append(_FOLLOWS | payload_type)
        headers += (offset << 10 | len(payload)).to_bytes(3, "big")
        data += payload
    headers.append(payload_type)
    return bytes(headers + data) + primary


def unwrap(data: bytes) -> list[Block]:
    """The primary, then its copies from the newest to the oldest; empty copies are skipped.

    Raises:
        MalformedRed: nothing else is ever raised.
    """
    headers: list[tuple[int, int, int]] = []  # payload type, timestamp offset, length
    at = 0
    while at < len(data) and data[at] & _FOLLOWS:
        if len(headers) == MAX_COPIES:
            raise MalformedRed(f"RED has more than {MAX_COPIES} copies")
        if at + _COPY_HEADER_BYTES > len(data):
            raise MalformedRed(f"RED header is cut off after {len(data) - at} bytes")
        fields = int.from_bytes(data[at + 1 : at + _COPY_HEADER_BYTES], "big")
        headers.append((data[at] & 0x7F, fields >> 10, fields & MAX_COPY_BYTES))
        at += _COPY_HEADER_BYTES
    if at >= len(data):
        raise MalformedRed("RED has no primary")
    primary_type = data[at]
    at += 1
    copies = []
    for payload_type, offset, length in headers:
        if at + length > len(data):
            raise MalformedRed(f"RED copy of {length} bytes in {len(data) - at}")
        if length:
            copies.append(Block(payload_type, offset, data[at : at + length]))
        at += length
    copies.sort(key=lambda copy: copy.timestamp_offset)
    return [Block(primary_type, 0, data[at:]), *copies]
