"""RTP packets: reading, writing, and distances on wrapping counters (RFC 3550 section 5, RFC 8285 skipped)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_HEADER = struct.Struct("!BBHII")
_VERSION_2 = 0x80
_PADDING = 0x20
_EXTENSION = 0x10
_RTCP_TYPES = range(192, 224)


class MalformedRtp(ValueError):
    """Bytes that are no RTP packet."""


def is_rtcp(data: bytes) -> bool:
    """Tells RTCP from RTP where both share a port: RFC 5761 section 4."""
    return len(data) > 1 and data[0] >> 6 == 2 and data[1] in _RTCP_TYPES


@dataclass(slots=True)
class RtpPacket:
    """One packet; `payload` is without padding. The header extension is skipped when read and never written."""

    payload_type: int
    sequence_number: int
    timestamp: int
    ssrc: int
    payload: bytes = b""
    marker: bool = False
    csrcs: tuple[int, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> RtpPacket:
        """Read one datagram.

        Raises:
            MalformedRtp: too short, another version, or lengths that contradict each other.
        """
        size = len(data)
        if size < _HEADER.size:
            raise MalformedRtp(f"{size} bytes are too short for an RTP header")
        first, second, sequence_number, timestamp, ssrc = _HEADER.unpack_from(data)
        if first >> 6 != 2:
            raise MalformedRtp(f"RTP version {first >> 6}, not 2")
        start, end = _HEADER.size, size
        csrcs: tuple[int, ...] = ()
        if count := first & 0x0F:
            if start + 4 * count > size:
                raise MalformedRtp(f"{count} contributing sources do not fit into {size} bytes")
            csrcs = struct.unpack_from(f"!{count}I", data, start)
            start += 4 * count
        if first & _EXTENSION:
            if start + 4 > size:
                raise MalformedRtp("header extension is cut off")
            start += 4 + 4 * int.from_bytes(data[start + 2 : start + 4], "big")
        if first & _PADDING:
            padding = data[-1]
            if padding == 0:
                raise MalformedRtp("padding of 0 bytes")
            end -= padding
        if start > end:
            raise MalformedRtp("header extension or padding is longer than the packet")
        return cls(second & 0x7F, sequence_number, timestamp, ssrc, data[start:end], second > 0x7F, csrcs)

    def serialize(self) -> bytes:
        first = _VERSION_2 | len(self.csrcs)
        second = self.payload_type | (0x80 if self.marker else 0)
        header = _HEADER.pack(first, second, self.sequence_number, self.timestamp, self.ssrc)
        sources = struct.pack(f"!{len(self.csrcs)}I", *self.csrcs) if self.csrcs else b""
        return header + sources + self.payload


def write_packet(
    payload_type: int, sequence_number: int, timestamp: int, ssrc: int, payload: bytes, marker: bool = False
) -> bytes:
    """The bytes of a plain packet, without building an RtpPacket first. Sequence number and timestamp are wrapped."""
    second = payload_type | 0x80 if marker else payload_type
    return _HEADER.pack(_VERSION_2, second, sequence_number & 0xFFFF, timestamp & 0xFFFFFFFF, ssrc) + payload


def signed_difference(value: int, reference: int, modulus: int) -> int:
    """How far `value` is ahead of `reference` on a circle: from -modulus/2 to modulus/2 - 1."""
    half = modulus >> 1
    return (value - reference + half) % modulus - half
