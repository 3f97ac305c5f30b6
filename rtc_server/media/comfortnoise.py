"""Comfort noise beside G.711 and G.722: how loud the silence is that a sender has stopped to send (RFC 3389).

The first byte of the payload is the level; the bytes behind it shape the spectrum, which is not followed here. Opus has
a way of its own.
"""

from __future__ import annotations


def level_dbov(payload: bytes) -> int | None:
    """Level of the noise against digital overload, 0 to -127 dB; None for a payload that says none (section 3.1)."""
    return -(payload[0] & 0x7F) if payload else None
