"""Which codec a call uses: Opus where it is offered, RED around it where that is too, else G.711.

RFC 7587 (Opus), 2198 (RED), 3551 (G.711), 3389 (comfort noise).

A call keeps its codec: jitter buffer, encoder and the RTP clock are made for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rtc_server.errors import UnsupportedOffer
from rtc_server.media.audioformat import MAX_BITRATE_BPS, AudioFormat, CodecName
from rtc_server.transports.webrtc.offer import Codec, Section, whole_number

OPUS_CLOCK_HZ = 48_000
G711_CLOCK_HZ = 8000
MIN_BITRATE_BPS = 6_000
"""RFC 7587 section 7.1."""

_G711: dict[str, CodecName] = {"pcmu": "PCMU", "pcma": "PCMA"}
_MAX_NAMED = 8
_MAX_NAMED_CHARS = 120


def choose_audio(section: Section, previous: AudioFormat | None = None) -> AudioFormat | None:
    """The format for an audio section, or None where it offers nothing that we have.

    Among PCMU and PCMA the offer's order decides. Where there is a `previous` format, its codec stays, and its payload
    type too if it still means that codec.
    """
    usable = [codec for codec in section.codecs() if _usable_with_rtcp_mux(codec.payload_type)]
    known = [(name, codec) for codec in usable if (name := _codec_name(codec)) is not None]
    if previous is None:
        known.sort(key=lambda item: item[0] != "opus")
    else:
        known = [item for item in known if item[0] == previous.codec]
        known.sort(key=lambda item: item[1].payload_type != previous.payload_type)
    if not known:
        return None
    name, codec = known[0]
    if name == "opus":
        red, bitrate_bps = _red(usable, codec.payload_type), _bitrate_bps(codec)
        return AudioFormat(name, codec.payload_type, OPUS_CLOCK_HZ, red_payload_type=red, max_bitrate_bps=bitrate_bps)
    return AudioFormat(name, codec.payload_type, G711_CLOCK_HZ, comfort_noise_payload_type=_comfort_noise(usable))


def no_codec(section: Section, previous: AudioFormat | None = None) -> UnsupportedOffer:
    """The refusal of a section for which `choose_audio` found nothing: says what was wanted and what is there."""
    names = dict.fromkeys(f"{codec.name}/{codec.clock_hz}" for codec in section.codecs())
    offered = ", ".join(list(names)[:_MAX_NAMED])[:_MAX_NAMED_CHARS] or "none"
    if previous is not None:
        return UnsupportedOffer(
            f"the offer drops {previous.codec}, which this call uses (codecs: {offered})",
            hint="a call keeps its codec; start a new session for another one",
        )
    return UnsupportedOffer(
        f"the audio section offers neither opus/48000 nor PCMU/8000 nor PCMA/8000 (codecs: {offered})",
        hint="offer Opus",
    )


def _codec_name(codec: Codec) -> CodecName | None:
    if codec.name == "opus" and codec.clock_hz == OPUS_CLOCK_HZ:
        return "opus"
    if codec.clock_hz == G711_CLOCK_HZ and codec.channels == 1:
        return _G711.get(codec.name)
    return None


def _usable_with_rtcp_mux(payload_type: int) -> bool:
    # With RTP and RTCP on one port, payload types 64 to 95 read as RTCP (RFC 5761 section 4).
    return payload_type < 64 or 96 <= payload_type <= 127


def _red(usable: Sequence[Codec], opus_payload_type: int) -> int | None:
    """RED with the clock and channels of Opus, if its blocks may be this Opus (RFC 2198 section 5)."""
    for codec in usable:
        fits = (codec.name, codec.clock_hz, codec.channels) == ("red", OPUS_CLOCK_HZ, 2)
        if fits and (not codec.fmtp or str(opus_payload_type) in codec.fmtp.split("/")):
            return codec.payload_type
    return None


def _comfort_noise(usable: Sequence[Codec]) -> int | None:
    found = (codec for codec in usable if (codec.name, codec.clock_hz) == ("cn", G711_CLOCK_HZ))
    return next((codec.payload_type for codec in found), None)


def _bitrate_bps(opus: Codec) -> int:
    wanted = whole_number(opus.parameter("maxaveragebitrate"), 1, 2**31)
    return MAX_BITRATE_BPS if wanted is None else max(MIN_BITRATE_BPS, min(wanted, MAX_BITRATE_BPS))
