"""What the two ends of a call agreed to send each other: the codec, its payload types, its clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MAX_BITRATE_BPS = 48_000
"""Most that our Opus encoder is worth: 40 kb/s, and as much more as in-band FEC takes."""

CodecName = Literal["opus", "PCMU", "PCMA", "G722"]
"""As in `a=rtpmap` (RFC 3551, 7587)."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """One codec, the same both ways."""

    codec: CodecName
    payload_type: int
    clock_hz: int
    """Of the RTP timestamps: 48000 for Opus, 8000 for G.711, and for G.722 too, which has 16000 samples a second
    (RFC 3551 section 4.5.2)."""
    red_payload_type: int | None = None
    """Redundant audio (RFC 2198) around this codec, where the peer offered it."""
    comfort_noise_payload_type: int | None = None
    """Comfort noise (RFC 3389) that the peer may send; not with Opus, which has its own."""
    max_bitrate_bps: int = MAX_BITRATE_BPS
    """For our encoder: the peer's ``maxaveragebitrate``, at most our own. Of no meaning for other codecs."""

    def from_48_khz(self, timestamp: int) -> int:
        """A time of the playout, which counts at 48 kHz, on this codec's clock."""
        return timestamp * self.clock_hz // 48_000
