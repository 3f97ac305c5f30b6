"""Which codec a phone call uses, and how it is written down: Opus (RFC 7587), G.711 and G.722 (RFC 3551), beside it
telephone events (RFC 4733) and comfort noise (RFC 3389).

Exactly one codec is answered, so that both ends send the same one. G.722 codes 16 kHz, but its RTP clock is 8000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rtc_server.media.audioformat import MAX_BITRATE_BPS, AudioFormat, CodecName
from rtc_server.transports.sip.negotiation.agreedmedia import TelephoneEvent
from rtc_server.transports.sip.negotiation.sdp import Attribute, MediaRefused, MediaSection, whole_number

OPUS_CLOCK_HZ = 48_000
G711_CLOCK_HZ = 8000
WANTED_BITRATE_BPS = 40_000
"""What we ask of the other end's Opus encoder: mono speech at 24 kHz, with in-band FEC."""
MIN_BITRATE_BPS = 6_000
"""RFC 7587 section 7.1."""

_OPUS_FMTP = (
    "useinbandfec=1;usedtx=0;stereo=0;sprop-stereo=0;"
    f"maxplaybackrate=24000;sprop-maxcapturerate=24000;maxaveragebitrate={WANTED_BITRATE_BPS}"
)
_DIGITS_FMTP = "0-15"
_FORMAT = re.compile(r"[0-9]{1,3}")
_RTPMAP = re.compile(r"([0-9]{1,3})[ \t]+([!-.0-~]{1,64})[ \t]*/[ \t]*([0-9]{1,6})(?:/([0-9]{1,2}))?(?:[ \t].*)?")
_MAX_NAMED = 8
_MAX_NAMED_CHARS = 120


@dataclass(frozen=True, slots=True)
class Encoding:
    """What a payload type means; `name` in lower case."""

    name: str
    clock_hz: int
    channels: int = 1


_ENCODINGS: dict[CodecName, Encoding] = {
    "PCMU": Encoding("pcmu", G711_CLOCK_HZ),
    "PCMA": Encoding("pcma", G711_CLOCK_HZ),
    "G722": Encoding("g722", G711_CLOCK_HZ),
    "opus": Encoding("opus", OPUS_CLOCK_HZ, 2),
}
_STATIC = {
    0: Encoding("pcmu", 8000),
    3: Encoding("gsm", 8000),
    8: Encoding("pcma", 8000),
    9: Encoding("g722", 8000),
    13: Encoding("cn", 8000),
    18: Encoding("g729", 8000),
}
"""Payload types that need no `a=rtpmap` (RFC 3551 section 6), as far as they are met."""
_PREFERRED_NUMBERS = {
    Encoding("pcmu", 8000): 0,
    Encoding("pcma", 8000): 8,
    Encoding("g722", 8000): 9,
    Encoding("opus", 48_000, 2): 96,
    Encoding("telephone-event", 8000): 101,
    Encoding("telephone-event", 48_000): 102,
}


@dataclass(frozen=True, slots=True)
class AudioChoice:
    """One codec, and the telephone events beside it."""

    audio: AudioFormat
    telephone_event: TelephoneEvent | None

    @property
    def formats(self) -> tuple[str, ...]:
        """For the m= line."""
        event = self.telephone_event
        beside = (self.audio.comfort_noise_payload_type, None if event is None else event.payload_type)
        return tuple(str(number) for number in (self.audio.payload_type, *beside) if number is not None)

    @property
    def attributes(self) -> list[Attribute]:
        """What explains the formats."""
        lines = _codec_lines(self.audio.codec, self.audio.payload_type)
        if self.audio.comfort_noise_payload_type is not None:
            lines.append(("rtpmap", f"{self.audio.comfort_noise_payload_type} CN/{self.audio.clock_hz}"))
        if self.telephone_event is not None:
            lines += _event_lines(self.telephone_event)
        return lines


def meanings(section: MediaSection, known: Mapping[int, Encoding] | None = None) -> dict[int, Encoding]:
    """The payload types of a section in the order of its m= line: what its writer prefers comes first.

    `known`: what they mean where the section does not say, beside RFC 3551.
    """
    mapped: dict[int, Encoding] = {}
    for value in section.values("rtpmap"):
        match = _RTPMAP.fullmatch(value)
        if match is not None:
            encoding = Encoding(match[2].lower(), int(match[3]), int(match[4] or 1))
            mapped.setdefault(int(match[1]), encoding)
    meaning = {**_STATIC, **(known or {}), **mapped}
    numbers = [int(text) for text in section.formats if _FORMAT.fullmatch(text)]
    return {number: meaning[number] for number in numbers if number in meaning and number <= 127}


def choose_codec(
    section: MediaSection,
    allowed: Sequence[CodecName],
    in_use: CodecName | None = None,
    known: Mapping[int, Encoding] | None = None,
    rtcp_mux: bool = False,
) -> AudioChoice:
    """The codec `in_use` where the section still has it, else its first one that is `allowed`.

    Raises: MediaRefused with status 488 where there is none.
    """
    offered = meanings(section, known)
    usable = {number: encoding for number, encoding in offered.items() if not rtcp_mux or _fits_mux(number)}
    names = ((_codec_name(encoding), number) for number, encoding in usable.items())
    found = [(name, number) for name, number in names if name is not None and name in allowed]
    if not found:
        raise MediaRefused(488, f"none of {', '.join(allowed)} in {_named(section, offered)}", 305)
    name, number = min(found, key=lambda item: item[0] != in_use)
    if name == "opus":
        audio = AudioFormat(name, number, OPUS_CLOCK_HZ, max_bitrate_bps=_bitrate_bps(section, number))
    else:
        noise = next((number for number, encoding in usable.items() if encoding == Encoding("cn", G711_CLOCK_HZ)), None)
        audio = AudioFormat(name, number, G711_CLOCK_HZ, comfort_noise_payload_type=noise)
    return AudioChoice(audio, _telephone_event(usable, audio.clock_hz))


class PayloadTypes:
    """Numbers for our own offers. One that has had a meaning in a call keeps it (RFC 3264 section 8.3.2)."""

    def __init__(self) -> None:
        self._meanings: dict[int, Encoding] = {}  # at most 128

    def learn(self, meanings: Mapping[int, Encoding]) -> None:
        """What a description that was taken says."""
        self._meanings.update(meanings)

    def offer(self, codecs: Sequence[CodecName]) -> tuple[tuple[str, ...], list[Attribute], dict[int, Encoding]]:
        """Formats, attributes and meanings of an offer of these codecs, with telephone events at each clock."""
        lines: list[Attribute] = []
        numbered: dict[int, Encoding] = {}
        for codec in codecs:
            number = self._number(_ENCODINGS[codec])
            numbered[number] = _ENCODINGS[codec]
            lines += _codec_lines(codec, number)
        for clock_hz in sorted({encoding.clock_hz for encoding in numbered.values()}):
            encoding = Encoding("telephone-event", clock_hz)
            number = self._number(encoding)
            numbered[number] = encoding
            lines += _event_lines(TelephoneEvent(number, clock_hz))
        return tuple(map(str, numbered)), lines, numbered

    def _number(self, encoding: Encoding) -> int:
        """The last one of this meaning, else the usual one, else a free one."""
        had = [number for number, meaning in self._meanings.items() if meaning == encoding]
        if had:
            return had[-1]
        usual = _PREFERRED_NUMBERS[encoding]
        free = (number for number in (usual, *range(96, 128), *range(35, 64)) if number not in self._meanings)
        number = next(free, usual)
        self._meanings[number] = encoding
        return number


def _codec_name(encoding: Encoding) -> CodecName | None:
    """None for what is unknown or illegal, such as opus/8000. Opus without its two channels is met, and meant."""
    if (encoding.name, encoding.clock_hz) == ("opus", OPUS_CLOCK_HZ):
        return "opus"
    return next((name for name, known in _ENCODINGS.items() if known == encoding), None)


def _fits_mux(payload_type: int) -> bool:
    # With RTP and RTCP on one port, payload types 64 to 95 read as RTCP (RFC 5761 section 4).
    return not 64 <= payload_type <= 95


def _telephone_event(usable: Mapping[int, Encoding], clock_hz: int) -> TelephoneEvent | None:
    """At the codec's clock (RFC 4733 section 2.1). Beside Opus many phones have it at 8000 only, and digits at a clock
    of their own are better than none."""
    for wanted_hz in dict.fromkeys((clock_hz, 8000)):
        for number, encoding in usable.items():
            if (encoding.name, encoding.clock_hz) == ("telephone-event", wanted_hz):
                return TelephoneEvent(number, wanted_hz)
    return None


def _bitrate_bps(section: MediaSection, payload_type: int) -> int:
    for value in section.values("fmtp"):
        number, _, parameters = value.partition(" ")
        if number != str(payload_type):
            continue
        for parameter in parameters.split(";"):
            name, _, text = parameter.partition("=")
            wanted = whole_number(text.strip(), 1, 2**31) if name.strip().lower() == "maxaveragebitrate" else None
            if wanted is not None:
                return max(MIN_BITRATE_BPS, min(wanted, MAX_BITRATE_BPS))
    return MAX_BITRATE_BPS


def _codec_lines(codec: CodecName, number: int) -> list[Attribute]:
    if codec == "opus":
        return [("rtpmap", f"{number} opus/48000/2"), ("fmtp", f"{number} {_OPUS_FMTP}")]
    return [("rtpmap", f"{number} {codec}/{_ENCODINGS[codec].clock_hz}")]


def _event_lines(event: TelephoneEvent) -> list[Attribute]:
    number = event.payload_type
    return [("rtpmap", f"{number} telephone-event/{event.clock_hz}"), ("fmtp", f"{number} {_DIGITS_FMTP}")]


def _named(section: MediaSection, known: Mapping[int, Encoding]) -> str:
    names = list(dict.fromkeys(f"{encoding.name}/{encoding.clock_hz}" for encoding in known.values()))
    unexplained = [text for text in section.formats if not text.isdigit() or int(text[:4]) not in known]
    if unexplained:
        names.append(f"payload types without a=rtpmap: {' '.join(unexplained[:_MAX_NAMED])}")
    return ", ".join([*names[:_MAX_NAMED], *names[_MAX_NAMED:][-1:]])[:_MAX_NAMED_CHARS]
