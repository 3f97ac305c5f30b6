"""What the two ends of a call agreed to send each other: the codec, its payload types, its clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CodecName = Literal["opus", "PCMU", "PCMA"]
"""As in `a=rtpmap` (RFC 3551, 7587)."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """One codec, the same both ways."""

    codec: CodecName
    payload_type: int
    clock_hz: int
    """Of the RTP timestamps: 48000 for Opus, 8000 for G.711."""
    red_payload_type: int | None = None
    """Redundant audio (RFC 2198) around this codec, where the peer offered it."""
    comfort_noise_payload_type: int | None = None
    """Comfort noise (RFC 3389) that the peer may send; G.711 only, Opus has its own."""
    max_bitrate_bps: int = 40_000
    """For our encoder: the peer's ``maxaveragebitrate``, at most our own. Of no meaning for G.711."""
