"""What an Opus packet tells without being decoded: RFC 6716 section 3.

Pure functions on bytes. They read only as much as they need, and say 0 or False about a packet that is malformed there;
a packet that passes may still be refused by the decoder.
"""

from __future__ import annotations

_SILK_MS = (10.0, 20.0, 40.0, 60.0)
_HYBRID_MS = (10.0, 20.0)
_CELT_MS = (2.5, 5.0, 10.0, 20.0)
_FRAME_MS = _SILK_MS * 3 + _HYBRID_MS * 2 + _CELT_MS * 4
"""Duration of one Opus frame for each of the 32 configurations, table 2 of RFC 6716."""

_MAX_PACKET_MS = 120.0
_FIRST_CELT_CONFIG = 16


def duration_ms(payload: bytes) -> float:
    """How much audio a packet holds: 2.5 to 120; 0 for something that is no Opus packet."""
    if not payload:
        return 0.0
    toc = payload[0]
    code = toc & 3
    if code == 0:
        count = 1
    elif code < 3:
        count = 2
    elif len(payload) > 1:
        count = payload[1] & 0x3F
    else:
        return 0.0
    total = _FRAME_MS[toc >> 3] * count
    return total if total <= _MAX_PACKET_MS else 0.0


def is_dtx(payload: bytes) -> bool:
    """A packet that says "nothing to hear until further notice": the TOC and at most one byte."""
    return 0 < len(payload) <= 2


def has_fec(payload: bytes) -> bool:
    """Whether the packet repeats the audio before it at a low bitrate (LBRR, RFC 6716 section 4.2.4)."""
    if len(payload) < 2:
        return False
    toc = payload[0]
    config = toc >> 3
    if config >= _FIRST_CELT_CONFIG:
        return False
    start = _first_frame(payload)
    if start == 0 or start >= len(payload):
        return False
    # The SILK header: per channel one VAD flag for each 20 ms, then one LBRR flag; all with probability 1/2.
    flags = payload[start]
    vad_flags = max(1, int(_FRAME_MS[config] // 20))
    lbrr = flags >> (7 - vad_flags) & 1
    if toc & 4:  # stereo: the side channel's flags follow
        lbrr |= flags >> (6 - 2 * vad_flags) & 1
    return bool(lbrr)


def _first_frame(payload: bytes) -> int:
    """Where the first frame's data begins, RFC 6716 section 3.2; 0 when it is malformed or empty."""
    code = payload[0] & 3
    if code < 2:
        return 1
    if code == 2:
        size, used = _frame_length(payload, 1)
        return 1 + used if size > 0 else 0
    count_byte = payload[1]
    at, padding = 2, 0
    if count_byte & 0x40:  # a byte of 255 stands for 254 bytes of padding and another length byte
        while at < len(payload) and payload[at] == 255:
            padding += 254
            at += 1
        padding += payload[at] if at < len(payload) else 0
        at += 1
    if count_byte & 0x80:  # each frame but the last has its own length
        first = -1
        for _ in range((count_byte & 0x3F) - 1):
            size, used = _frame_length(payload, at)
            if used == 0:
                return 0
            first = size if first < 0 else first
            at += used
        if first == 0:
            return 0
    return at if at < len(payload) - padding else 0


def _frame_length(payload: bytes, at: int) -> tuple[int, int]:
    """(bytes of the frame, bytes of its length field), RFC 6716 section 3.2.1; (0, 0) when it is cut off."""
    if at >= len(payload):
        return 0, 0
    if payload[at] < 252:
        return payload[at], 1
    if at + 1 >= len(payload):
        return 0, 0
    return payload[at] + 4 * payload[at + 1], 2
