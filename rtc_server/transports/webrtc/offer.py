"""Reading an SDP offer: a tolerant reader that keeps what an answer needs and names what is wrong (RFC 8866, 8829).

Nothing is resolved, and offers without candidates, or with names instead of addresses, are as good as any other: an
ICE-lite agent learns its peer from the connectivity checks. `remotecandidates` reads those of a peer that sends none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rtc_server.errors import BadOffer

MAX_SDP_BYTES = 32 * 1024
MAX_LINES = 1000
MAX_LINE_CHARS = 1024
MAX_SECTIONS = 16

_TOKEN = re.compile(r"[!#$%&'*+\-.0-9A-Z^_`a-z{|}~]{1,64}")  # RFC 8866 section 9, `token`
_FORMAT = re.compile(r"[!-~]{1,64}")
_MEDIA_LINE = re.compile(
    r"m=(audio|video|application|text|image|message) (\d{1,5})(?:/\d{1,5})? ([A-Za-z0-9/]{1,64}) (.+)"
)
_RTPMAP = re.compile(r"(0|[1-9][0-9]{0,2})[ \t]+([!-.0-~]{1,64})/([0-9]{1,6})(?:/([0-9]{1,2}))?(?:[ \t].*)?")
_ICE_CHARS = re.compile(r"[A-Za-z0-9+/]+")
_DIRECTIONS = frozenset({"sendrecv", "sendonly", "recvonly", "inactive"})


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One `a=fingerprint` (RFC 8122): `algorithm` in lower case, `value` as colon-separated upper-case hex."""

    algorithm: str
    value: str


@dataclass(frozen=True, slots=True)
class Codec:
    """One format of an RTP section, of its `a=rtpmap` or of the static table."""

    payload_type: int
    name: str
    """In lower case."""
    clock_hz: int
    channels: int = 1
    fmtp: str = ""
    """What stands behind the payload type in its `a=fmtp`."""

    def parameter(self, name: str) -> str | None:
        """A parameter of `fmtp` where that is a list ``name=value;...``; names in lower case."""
        pairs = (part.partition("=") for part in self.fmtp.split(";"))
        return next((value.strip() for key, _, value in pairs if key.strip().lower() == name), None)


STATIC_CODECS = {
    "0": Codec(0, "pcmu", 8000),
    "3": Codec(3, "gsm", 8000),
    "8": Codec(8, "pcma", 8000),
    "9": Codec(9, "g722", 8000),
    "13": Codec(13, "cn", 8000),
    "18": Codec(18, "g729", 8000),
}
"""Payload types that need no `a=rtpmap` (RFC 3551 section 6), as far as they are met."""


@dataclass(slots=True)
class Attributes:
    """Attributes of the session or of one section; the first one of a name counts where only one makes sense."""

    first: dict[str, str] = field(default_factory=dict)
    all: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, value: str) -> None:
        self.first.setdefault(name, value)
        self.all.append((name, value))

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.all if key == name]

    @property
    def direction(self) -> str | None:
        return next((key for key, _ in self.all if key in _DIRECTIONS), None)


@dataclass(slots=True)
class Section:
    """One `m=` section. `mid` is None where the offer gives none, as old peers do for rejected sections."""

    kind: str
    port: int
    profile: str
    formats: tuple[str, ...]
    attributes: Attributes = field(default_factory=Attributes)
    mid: str | None = None

    @property
    def rejected(self) -> bool:
        """Port 0, unless it only says that the section lives in a bundle (RFC 8843 section 6)."""
        return self.port == 0 and "bundle-only" not in self.attributes.first

    @property
    def is_rtp(self) -> bool:
        return self.profile.upper().endswith(("RTP/AVP", "RTP/AVPF", "RTP/SAVP", "RTP/SAVPF"))

    def codecs(self) -> list[Codec]:
        """Formats with a known meaning, in the order of the `m=` line: what the offerer prefers comes first."""
        fmtp: dict[str, str] = {}
        for value in self.attributes.values("fmtp"):
            payload_type, _, parameters = value.partition(" ")
            fmtp.setdefault(payload_type, parameters.strip())
        mapped: dict[str, Codec] = {}
        for value in self.attributes.values("rtpmap"):
            match = _RTPMAP.fullmatch(value)
            if match is not None:
                number, name, clock_hz, channels = match.groups()
                codec = Codec(int(number), name.lower(), int(clock_hz), int(channels or 1), fmtp.get(number, ""))
                mapped.setdefault(number, codec)
        known = {**STATIC_CODECS, **mapped}
        return [known[number] for number in dict.fromkeys(self.formats) if number in known]


@dataclass(slots=True)
class Offer:
    attributes: Attributes
    sections: list[Section]

    def bundle_of(self, section: Section) -> tuple[str, ...]:
        """Mids of the BUNDLE group that the section is in, else () (RFC 8843)."""
        for value in self.attributes.values("group"):
            words = value.split()
            if words[:1] == ["BUNDLE"] and section.mid is not None and section.mid in words[1:]:
                return tuple(words[1:])
        return ()

    def transport_attribute(self, section: Section, name: str) -> list[str]:
        """Values for a section's transport: its own, else the session's, else those of the section that its bundle
        is tagged by."""
        own = section.attributes.values(name) or self.attributes.values(name)
        if own:
            return own
        bundle = self.bundle_of(section)
        tagged = next((other for other in self.sections if bundle and other.mid == bundle[0]), section)
        return tagged.attributes.values(name)

    def ice_credentials(self, section: Section) -> tuple[str, str]:
        """(ufrag, pwd), checked against RFC 8839 section 5.4.

        Raises: BadOffer when they are missing or malformed.
        """
        ufrag = next(iter(self.transport_attribute(section, "ice-ufrag")), "")
        pwd = next(iter(self.transport_attribute(section, "ice-pwd")), "")
        if not ufrag or not pwd:
            raise BadOffer("the audio section has no ICE credentials", hint="send a=ice-ufrag and a=ice-pwd")
        for name, value, least in (("ice-ufrag", ufrag, 4), ("ice-pwd", pwd, 22)):
            if not least <= len(value) <= 256 or not _ICE_CHARS.fullmatch(value):
                raise BadOffer(f"a={name} of {len(value)} characters is malformed; {least} to 256 of A-Z a-z 0-9 + /")
        return ufrag, pwd

    def fingerprints(self, section: Section) -> list[Fingerprint]:
        found = []
        for value in self.transport_attribute(section, "fingerprint"):
            algorithm, _, digest = value.partition(" ")
            if digest.strip():
                found.append(Fingerprint(algorithm.lower(), digest.strip().upper()))
        return found

    def is_ice_lite(self, section: Section) -> bool:
        """`a=ice-lite` belongs to the session (RFC 8839 section 5.3); in a section it is understood as well."""
        return bool(self.transport_attribute(section, "ice-lite"))

    def direction(self, section: Section) -> str:
        return section.attributes.direction or self.attributes.direction or "sendrecv"


def parse_offer(sdp: str) -> Offer:
    """Read an offer; CRLF, LF and a missing last line end are all fine.

    Raises: BadOffer with what is wrong, for everything that is not SDP. Bounded work: see the MAX_ constants.
    """
    lines = _lines(sdp)
    session = Attributes()
    sections: list[Section] = []
    for line in lines:
        if line.startswith("m="):
            if len(sections) == MAX_SECTIONS:
                raise BadOffer(f"more than {MAX_SECTIONS} media sections")
            sections.append(_section(line))
        elif line.startswith("a="):
            name, _, value = line[2:].partition(":")
            (sections[-1].attributes if sections else session).add(name.strip().lower(), value.strip())
    for section in sections:
        section.mid = _mid(section)
    _check_mids(sections)
    return Offer(session, sections)


def _lines(sdp: str) -> list[str]:
    size = len(sdp.encode("utf-8", "surrogatepass"))
    if size > MAX_SDP_BYTES:
        raise BadOffer(f"offer of {size} bytes is over the limit of {MAX_SDP_BYTES}")
    lines = [line for line in re.split(r"\r\n|\n|\r", sdp) if line]
    if not lines or lines[0].strip() != "v=0":
        raise BadOffer("offer is not SDP", hint="the first line must be v=0")
    if len(lines) > MAX_LINES:
        raise BadOffer(f"offer of {len(lines)} lines is over the limit of {MAX_LINES}")
    longest = max(len(line) for line in lines)
    if longest > MAX_LINE_CHARS:
        raise BadOffer(f"line of {longest} characters is over the limit of {MAX_LINE_CHARS}")
    return lines


def _section(line: str) -> Section:
    match = _MEDIA_LINE.fullmatch(line.rstrip())
    if match is None:
        raise BadOffer("malformed m= line", hint="m=<media> <port> <proto> <fmt> ...")
    port = int(match.group(2))
    formats = tuple(match.group(4).split())
    if port > 65535 or not all(_FORMAT.fullmatch(value) for value in formats):
        raise BadOffer("malformed m= line", hint="a port of at most 65535 and printable formats")
    return Section(match.group(1), port, match.group(3), formats)


def _mid(section: Section) -> str | None:
    mid = section.attributes.first.get("mid")
    if mid is not None and not _TOKEN.fullmatch(mid):
        raise BadOffer("malformed a=mid", hint="a token of at most 64 characters")
    return mid


def _check_mids(sections: list[Section]) -> None:
    mids = [section.mid for section in sections if section.mid is not None]
    if len(mids) != len(set(mids)):
        raise BadOffer("two media sections have the same a=mid")


def whole_number(text: str | None, least: int, most: int) -> int | None:
    """A decimal number out of an attribute; None for anything else, and outside [least, most]."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    value = int(text)
    return value if least <= value <= most else None
