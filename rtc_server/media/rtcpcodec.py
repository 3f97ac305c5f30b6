"""RTCP on the wire: sender and receiver reports, source description, goodbye; compound packets (RFC 3550 section 6).

Packet types that are not used here (feedback, XR, APP) are skipped when read. Import these through
`rtc_server.media.rtcp`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

_SR, _RR, _SDES, _BYE = 200, 201, 202, 203
_CNAME = 1
_MAX_REPORTS = 31
_HEADER = struct.Struct("!BBH")
_BLOCK = struct.Struct("!IIIIII")
_SENDER_INFO = struct.Struct("!QIII")


class MalformedRtcp(ValueError):
    """Bytes that are no compound RTCP packet."""


@dataclass(frozen=True, slots=True)
class ReportBlock:
    """How a receiver hears one source, RFC 3550 section 6.4.1."""

    ssrc: int
    fraction_lost: int
    """Loss since the report before, in 1/256."""
    packets_lost: int
    """Since the beginning; 24 bits with sign, since duplicates count against it."""
    highest_sequence: int
    """Extended: wraps in the upper 16 bits."""
    jitter: int
    """In units of the RTP clock."""
    last_sr: int
    """Middle 32 bits of the NTP time in the source's last sender report; 0 for none."""
    delay_since_last_sr: int
    """In 1/65536 s."""

    @property
    def loss(self) -> float:
        """Share of packets lost since the report before, 0..1."""
        return self.fraction_lost / 256


@dataclass(frozen=True, slots=True)
class SenderReport:
    ssrc: int
    ntp: int
    """64-bit NTP time at which the report was sent."""
    rtp_timestamp: int
    packet_count: int
    octet_count: int
    """Of payload."""
    reports: tuple[ReportBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceiverReport:
    ssrc: int
    reports: tuple[ReportBlock, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceDescription:
    """The CNAMEs by SSRC; other items are skipped."""

    cnames: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Bye:
    ssrcs: tuple[int, ...]
    reason: str = ""


RtcpPacket = SenderReport | ReceiverReport | SourceDescription | Bye


def parse(data: bytes) -> list[RtcpPacket]:
    """The known packets of one compound datagram, in order.

    Raises:
        MalformedRtcp: wrong version, or a length that does not fit. Nothing else is ever raised.
    """
    packets: list[RtcpPacket] = []
    at = 0
    while at < len(data):
        if at + 4 > len(data):
            raise MalformedRtcp("RTCP header is cut off")
        first, kind, words = _HEADER.unpack_from(data, at)
        end = at + 4 * (words + 1)
        if first >> 6 != 2:
            raise MalformedRtcp(f"RTCP version {first >> 6}, not 2")
        if end > len(data):
            raise MalformedRtcp(f"RTCP packet of {end - at} bytes in {len(data) - at}")
        body = data[at + 4 : end]
        if first & 0x20:
            body = _without_padding(body)
        packet = _parse_body(kind, first & 0x1F, body)
        if packet is not None:
            packets.append(packet)
        at = end
    if not data:
        raise MalformedRtcp("empty RTCP packet")
    return packets


def serialize(packets: Iterable[RtcpPacket]) -> bytes:
    """One compound packet. It ought to begin with a report and hold a CNAME: RFC 3550 section 6.1."""
    return b"".join(_serialize_one(packet) for packet in packets)


def _without_padding(body: bytes) -> bytes:
    if not body or not 0 < body[-1] <= len(body):
        raise MalformedRtcp("RTCP padding is longer than its packet")
    return body[: -body[-1]]


def _parse_body(kind: int, count: int, body: bytes) -> RtcpPacket | None:
    if kind == _SR:
        if len(body) < 24 + _BLOCK.size * count:
            raise MalformedRtcp("sender report is too short")
        ntp, timestamp, packet_count, octets = _SENDER_INFO.unpack_from(body, 4)
        return SenderReport(_u32(body, 0), ntp, timestamp, packet_count, octets, _parse_blocks(body, 24, count))
    if kind == _RR:
        if len(body) < 4 + _BLOCK.size * count:
            raise MalformedRtcp("receiver report is too short")
        return ReceiverReport(_u32(body, 0), _parse_blocks(body, 4, count))
    if kind == _SDES:
        return _parse_sdes(body, count)
    if kind == _BYE:
        if len(body) < 4 * count:
            raise MalformedRtcp("goodbye is too short")
        rest = body[4 * count :]
        reason = rest[1 : 1 + rest[0]].decode("utf-8", "replace") if rest else ""
        return Bye(struct.unpack_from(f"!{count}I", body), reason)
    return None


def _parse_blocks(body: bytes, at: int, count: int) -> tuple[ReportBlock, ...]:
    blocks = []
    for k in range(count):
        ssrc, lost, highest, jitter, last_sr, delay = _BLOCK.unpack_from(body, at + k * _BLOCK.size)
        cumulative = lost & 0xFFFFFF
        if cumulative & 0x800000:
            cumulative -= 1 << 24
        blocks.append(ReportBlock(ssrc, lost >> 24, cumulative, highest, jitter, last_sr, delay))
    return tuple(blocks)


def _parse_sdes(body: bytes, count: int) -> SourceDescription:
    cnames: list[tuple[int, str]] = []
    at = 0
    for _ in range(count):
        if at + 4 > len(body):
            raise MalformedRtcp("source description is cut off")
        ssrc, at = _u32(body, at), at + 4
        while at < len(body) and body[at] != 0:
            if at + 2 > len(body) or at + 2 + body[at + 1] > len(body):
                raise MalformedRtcp("source description item is cut off")
            if body[at] == _CNAME:
                cnames.append((ssrc, body[at + 2 : at + 2 + body[at + 1]].decode("utf-8", "replace")))
            at += 2 + body[at + 1]
        at = (at // 4 + 1) * 4  # a chunk ends with at least one zero, on a border of 32 bits
    return SourceDescription(tuple(cnames))


def _u32(body: bytes, at: int) -> int:
    return int.from_bytes(body[at : at + 4], "big")


def _serialize_one(packet: RtcpPacket) -> bytes:
    match packet:
        case SenderReport():
            info = _SENDER_INFO.pack(packet.ntp, packet.rtp_timestamp, packet.packet_count, packet.octet_count)
            blocks = packet.reports[:_MAX_REPORTS]
            return _frame(_SR, len(blocks), packet.ssrc.to_bytes(4, "big") + info + _serialize_blocks(blocks))
        case ReceiverReport():
            blocks = packet.reports[:_MAX_REPORTS]
            return _frame(_RR, len(blocks), packet.ssrc.to_bytes(4, "big") + _serialize_blocks(blocks))
        case SourceDescription():
            chunks = b"".join(_sdes_chunk(ssrc, cname) for ssrc, cname in packet.cnames)
            return _frame(_SDES, len(packet.cnames), chunks)
        case Bye():
            reason = packet.reason.encode()[:255]
            tail = bytes([len(reason)]) + reason if reason else b""
            body = struct.pack(f"!{len(packet.ssrcs)}I", *packet.ssrcs) + tail
            return _frame(_BYE, len(packet.ssrcs), body + bytes(-len(body) % 4))


def _serialize_blocks(blocks: tuple[ReportBlock, ...]) -> bytes:
    return b"".join(
        _BLOCK.pack(
            block.ssrc,
            block.fraction_lost << 24 | block.packets_lost & 0xFFFFFF,
            block.highest_sequence,
            block.jitter,
            block.last_sr,
            block.delay_since_last_sr,
        )
        for block in blocks
    )


def _sdes_chunk(ssrc: int, cname: str) -> bytes:
    text = cname.encode()[:255]
    chunk = ssrc.to_bytes(4, "big") + bytes([_CNAME, len(text)]) + text
    return chunk + bytes(4 - len(chunk) % 4)


def _frame(kind: int, count: int, body: bytes) -> bytes:
    return _HEADER.pack(0x80 | count, kind, len(body) // 4) + body
