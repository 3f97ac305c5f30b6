from __future__ import annotations

import pytest
from aiortc import rtp as aiortc_rtp
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media.rtp import (
    MalformedRtp,
    RtpPacket,
    is_rtcp,
    signed_difference,
    write_packet,
)

U16, U32 = st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)


@given(st.integers(0, 127), U16, U32, U32, st.binary(max_size=50), st.booleans(), st.lists(U32, max_size=15))
def test_written_packet_is_read_back(
    payload_type: int, sequence: int, timestamp: int, ssrc: int, payload: bytes, marker: bool, csrcs: list[int]
) -> None:
    packet = RtpPacket(payload_type, sequence, timestamp, ssrc, payload, marker, tuple(csrcs))
    data = packet.serialize()
    assert RtpPacket.parse(data) == packet
    theirs = aiortc_rtp.RtpPacket.parse(data)
    assert (theirs.payload_type, theirs.sequence_number, theirs.timestamp) == (payload_type, sequence, timestamp)
    assert (theirs.ssrc, theirs.payload, bool(theirs.marker), theirs.csrc) == (ssrc, payload, marker, csrcs)
    if not csrcs:
        assert write_packet(payload_type, sequence, timestamp, ssrc, payload, marker) == data


def test_header_extension_and_padding_are_cut_off() -> None:
    theirs = aiortc_rtp.RtpPacket(payload_type=111, sequence_number=5, timestamp=960, ssrc=7, payload=b"sound")
    theirs.padding_size = 4
    data = theirs.serialize()
    # RFC 8285: profile, one word of extension
    with_extension = bytes([data[0] | 0x10]) + data[1:12] + b"\xbe\xde\x00\x01\x10\x41\x00\x00" + data[12:]
    packet = RtpPacket.parse(with_extension)
    assert packet == RtpPacket(111, 5, 960, 7, b"sound")
    assert aiortc_rtp.RtpPacket.parse(with_extension).payload == b"sound"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(11),
        bytes(12),
        b"\x40" + bytes(20),
        b"\x8f" + bytes(20),
        b"\x90" + bytes(11),
        b"\x90" + bytes(13) + b"\x00\x09" + bytes(4),
        b"\xa0" + bytes(12),
        b"\xa0" + bytes(11) + b"\x7f",
    ],
)
def test_malformed_packets_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedRtp):
        RtpPacket.parse(data)


@settings(max_examples=150)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_packet_or_malformed(data: bytes) -> None:
    for head in (data, b"\x80" + data, b"\xb2" + data):
        try:
            packet = RtpPacket.parse(head)
        except MalformedRtp:
            continue
        assert len(packet.payload) <= len(head) - 12


def test_rtcp_is_told_from_rtp() -> None:
    assert is_rtcp(b"\x80\xc8\x00\x00")
    assert is_rtcp(b"\x81\xcd\x00\x00")
    assert not is_rtcp(b"\x80\x6f\x00\x00")
    assert not is_rtcp(b"\x80\xef\x00\x00")  # marker and payload type 111
    assert not is_rtcp(b"\x80")


def test_signed_difference_is_the_short_way_round() -> None:
    assert signed_difference(2, 65535, 1 << 16) == 3
    assert signed_difference(65535, 2, 1 << 16) == -3
    assert signed_difference(0, 0, 1 << 16) == 0
