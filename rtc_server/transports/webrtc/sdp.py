"""Offer in, answer out (RFC 3264, 8829): pure text work, no sockets, no clock.

What an answer looks like: ICE-lite, DTLS role ``passive``, one Opus payload type, one host candidate per address of
ours, every section mirrored in place. Video and further sections are answered with port 0. Header extensions are not
answered, so their ids cannot change meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rtc_server.errors import BadOffer, UnsupportedOffer
from rtc_server.events import MAX_MESSAGE_BYTES
from rtc_server.media.audioformat import AudioFormat
from rtc_server.transports.webrtc.ice import Credentials
from rtc_server.transports.webrtc.offer import Codec, Fingerprint, Offer, Section, parse_offer

PTIME_MS = 20
MAX_BITRATE_BPS = 40_000
MIN_BITRATE_BPS = 6_000
SCTP_PORT = 5000
"""What we say we take; events of clients are far smaller."""

_STRONG_DIGEST_BYTES = {"sha-256": 32, "sha-384": 48, "sha-512": 64}
_ANSWER_DIRECTION = {"sendrecv": "sendrecv", "sendonly": "recvonly", "recvonly": "sendonly", "inactive": "inactive"}
_OPUS_FMTP = (
    "minptime=10;useinbandfec=1;usedtx=0;stereo=0;sprop-stereo=0;"
    f"maxplaybackrate=24000;maxaveragebitrate={MAX_BITRATE_BPS}"
)


@dataclass(frozen=True, slots=True)
class LocalDescription:
    """Our side of a call. `addresses` are IPv4 or IPv6 literals, best first; all share `port`."""

    credentials: Credentials
    """In use."""
    fresh_credentials: Credentials
    """For the answer to an offer that restarts ICE."""
    fingerprint: Fingerprint
    addresses: Sequence[str]
    port: int
    ssrc: int
    cname: str
    session_id: int


@dataclass(frozen=True, slots=True)
class RemoteCandidate:
    """Where a peer can be reached that never sends checks itself: a UDP candidate with an address in it."""

    host: str
    port: int
    priority: int


@dataclass(frozen=True, slots=True)
class SctpParameters:
    port: int
    max_message_bytes: int
    """0: no limit (RFC 8841 section 6)."""


@dataclass(frozen=True, slots=True)
class SectionState:
    """What a later offer must keep in place (RFC 3264 section 8)."""

    kind: str
    mid: str | None
    accepted: bool


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What offer and answer agreed on; given back to `answer_offer` as `previous` for the next offer of the call."""

    answer_sdp: str
    version: int
    sections: tuple[SectionState, ...]
    remote_ufrag: str
    remote_pwd: str
    remote_fingerprints: tuple[Fingerprint, ...]
    audio: AudioFormat
    direction: str
    """The answer's: ``sendrecv``, ``sendonly``, ``recvonly`` or ``inactive``."""
    remote_ptime_ms: int | None
    """What the peer would like to get."""
    sctp: SctpParameters | None
    setup: Literal["passive", "active"] = "passive"
    """Our DTLS role: ``active`` (client) only where the offer leaves no choice."""
    remote_lite: bool = False
    """The peer is ICE-lite itself: we control, and send the checks (RFC 8445 section 6.1.1)."""
    remote_candidates: tuple[RemoteCandidate, ...] = ()
    """Only where `remote_lite`."""
    restarts_ice: bool = False
    """The offer has new credentials, and so has the answer: `LocalDescription.fresh_credentials`."""

    @property
    def expects_audio(self) -> bool:
        """The peer will send audio."""
        return self.direction in ("sendrecv", "recvonly")

    @property
    def sends_audio(self) -> bool:
        """The peer wants our audio."""
        return self.direction in ("sendrecv", "sendonly")


def answer_offer(offer_sdp: str, local: LocalDescription, previous: Negotiated | None = None) -> Negotiated:
    """Answer an offer, or a later offer of the same call; nothing is changed when it is refused.

    Raises: BadOffer for an offer that is wrong, UnsupportedOffer for one that asks for what this server does not do.
    """
    offer = parse_offer(offer_sdp)
    audio = _audio_section(offer)
    _check_transport(offer, audio)
    ufrag, pwd = offer.ice_credentials(audio)
    fingerprints = _strong_fingerprints(offer, audio)
    opus = _opus(audio)
    data = _data_section(offer, audio)
    if previous is not None:
        _check_continuity(offer, audio, (ufrag, pwd), fingerprints, previous)
    sections = tuple(
        SectionState(section.kind, section.mid, section is audio or section is data) for section in offer.sections
    )
    version = 1 if previous is None else previous.version + 1
    direction = _ANSWER_DIRECTION[offer.direction(audio)]
    return Negotiated(
        answer_sdp=_write_answer(offer, audio, data, opus.payload_type, direction, local, version),
        version=version,
        sections=sections,
        remote_ufrag=ufrag,
        remote_pwd=pwd,
        remote_fingerprints=fingerprints,
        audio=AudioFormat("opus", opus.payload_type, opus.clock_rate_hz, max_bitrate_bps=_bitrate(opus)),
        direction=direction,
        remote_ptime_ms=_number(audio.attributes.first.get("ptime"), 3, 120),
        sctp=None if data is None else _sctp(data),
    )


# ---- reading ---------------------------------------------------------------------------------------------------------


def _audio_section(offer: Offer) -> Section:
    """The first live audio section that offers Opus."""
    live = [section for section in offer.sections if section.kind == "audio" and not section.rejected]
    if not live:
        raise UnsupportedOffer("the offer has no audio section", hint="add an audio track or a recvonly transceiver")
    live = [section for section in live if section.is_rtp]
    if not live:
        raise UnsupportedOffer("the audio section is not RTP", hint="use UDP/TLS/RTP/SAVPF")
    return next((section for section in live if _has_opus(section)), live[0])


def _usable_opus(codec: Codec) -> bool:
    # With RTP and RTCP on one port, payload types 64 to 95 read as RTCP (RFC 5761 section 4).
    in_range = codec.payload_type < 64 or 96 <= codec.payload_type <= 127
    return codec.name == "opus" and codec.clock_rate_hz == 48_000 and in_range


def _has_opus(section: Section) -> bool:
    return any(_usable_opus(codec) for codec in section.codecs())


def _opus(section: Section) -> Codec:
    found = next((codec for codec in section.codecs() if _usable_opus(codec)), None)
    if found is None:
        offered = ", ".join(sorted({codec.name for codec in section.codecs()})[:8]) or "none"
        raise UnsupportedOffer(f"the audio section offers no opus/48000 (codecs: {offered[:120]})", hint="offer Opus")
    return found


def _check_transport(offer: Offer, audio: Section) -> None:
    if offer.is_ice_lite():
        raise UnsupportedOffer("the offer is a=ice-lite", hint="this server is ICE-lite itself; offer as a full agent")
    setup = next(iter(offer.transport_attribute(audio, "setup")), "actpass")
    if setup == "passive":
        raise UnsupportedOffer("the offer is a=setup:passive", hint="offer actpass or active; this server is passive")
    if setup not in ("actpass", "active"):
        raise BadOffer("malformed a=setup", hint="offer actpass or active")
    if "rtcp-mux" not in audio.attributes.first:
        raise UnsupportedOffer("the audio section has no a=rtcp-mux", hint="RTP and RTCP share one port here")


def _strong_fingerprints(offer: Offer, audio: Section) -> tuple[Fingerprint, ...]:
    found = offer.fingerprints(audio)
    if not found:
        raise BadOffer("the offer has no a=fingerprint", hint="DTLS-SRTP is the only transport here")
    strong = tuple(item for item in found if item.algorithm in _STRONG_DIGEST_BYTES)
    if not strong:
        weak = ", ".join(sorted({item.algorithm[:16] for item in found})[:4])
        raise UnsupportedOffer(f"no fingerprint is strong enough (offered: {weak})", hint="use sha-256")
    for item in strong:
        _check_digest(item)
    return strong


def _check_digest(fingerprint: Fingerprint) -> None:
    parts = fingerprint.value.split(":")
    right_length = len(parts) == _STRONG_DIGEST_BYTES[fingerprint.algorithm]
    if not right_length or not all(len(part) == 2 and set(part) <= set("0123456789ABCDEF") for part in parts):
        raise BadOffer(f"malformed {fingerprint.algorithm} fingerprint")


def _data_section(offer: Offer, audio: Section) -> Section | None:
    """The data channel's section, if it shares the audio section's transport."""
    bundle = offer.bundle_of(audio)
    for section in offer.sections:
        is_data = section.kind == "application" and section.profile in ("UDP/DTLS/SCTP", "TCP/DTLS/SCTP")
        if is_data and not section.rejected and section.mid is not None and section.mid in bundle:
            return section
    return None


def _sctp(data: Section) -> SctpParameters:
    port = _number(data.attributes.first.get("sctp-port"), 1, 65535)
    size = _number(data.attributes.first.get("max-message-size"), 0, 2**63)
    # RFC 8841 section 6.1: without the attribute the limit is 64 KiB.
    return SctpParameters(SCTP_PORT if port is None else port, 65536 if size is None else size)


def _bitrate(opus: Codec) -> int:
    wanted = _number(opus.parameters.get("maxaveragebitrate"), 1, 2**31)
    return MAX_BITRATE_BPS if wanted is None else max(MIN_BITRATE_BPS, min(wanted, MAX_BITRATE_BPS))


def _number(text: str | None, least: int, most: int) -> int | None:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    value = int(text)
    return value if least <= value <= most else None


def _check_continuity(
    offer: Offer,
    audio: Section,
    credentials: tuple[str, str],
    fingerprints: tuple[Fingerprint, ...],
    previous: Negotiated,
) -> None:
    """A later offer must leave the sections in place and keep the transport."""
    if len(offer.sections) < len(previous.sections):
        raise BadOffer("the offer has fewer media sections than the one before")
    for index, (section, before) in enumerate(zip(offer.sections, previous.sections, strict=False)):
        if not before.accepted:
            continue  # may be used again for something else (RFC 8829 section 5.2.2)
        if (section.kind, section.mid) != (before.kind, before.mid):
            raise BadOffer(f"media section {index} changed its kind or mid", hint="sections keep their order in a call")
        if before.kind == "audio" and section is not audio:
            raise UnsupportedOffer("the offer takes the audio section away", hint="offer it inactive to hold the call")
    if credentials != (previous.remote_ufrag, previous.remote_pwd):
        raise UnsupportedOffer("the offer restarts ICE", hint="keep a=ice-ufrag and a=ice-pwd, or start a new session")
    if set(fingerprints) != set(previous.remote_fingerprints):
        raise UnsupportedOffer("the offer changes the DTLS fingerprint", hint="start a new session")


# ---- writing ---------------------------------------------------------------------------------------------------------


def _write_answer(
    offer: Offer,
    audio: Section,
    data: Section | None,
    payload_type: int,
    direction: str,
    local: LocalDescription,
    version: int,
) -> str:
    lines = ["v=0", f"o=- {local.session_id} {version} IN IP4 0.0.0.0", "s=-", "t=0 0", "a=ice-lite"]
    bundle = offer.bundle_of(audio)
    accepted = {section.mid for section in (audio, data) if section is not None}
    if bundle:
        lines.append("a=group:BUNDLE " + " ".join(mid for mid in dict.fromkeys(bundle) if mid in accepted))
    if "msid-semantic" in offer.attributes.first:
        lines.append("a=msid-semantic:WMS *")
    transport = _transport_lines(local)
    for section in offer.sections:
        if section is audio:
            lines += [f"m=audio {local.port} {section.profile} {payload_type}", *transport, *_mid_line(section)]
            lines += _audio_lines(payload_type, direction, local)
        elif section is data:
            lines += [f"m=application {local.port} {section.profile} webrtc-datachannel", *transport]
            lines += [*_mid_line(section), f"a=sctp-port:{SCTP_PORT}", f"a=max-message-size:{MAX_MESSAGE_BYTES}"]
        else:
            lines += [f"m={section.kind} 0 {section.profile} {' '.join(section.formats)}"]
            lines += ["c=IN IP4 0.0.0.0", *_mid_line(section), "a=inactive"]
    return "\r\n".join(lines) + "\r\n"


def _mid_line(section: Section) -> list[str]:
    return [] if section.mid is None else [f"a=mid:{section.mid}"]


def _transport_lines(local: LocalDescription) -> list[str]:
    best = local.addresses[0] if local.addresses else "0.0.0.0"
    lines = [
        f"c=IN IP{6 if ':' in best else 4} {best}",
        f"a=ice-ufrag:{local.credentials.ufrag}",
        f"a=ice-pwd:{local.credentials.pwd}",
        f"a=fingerprint:{local.fingerprint.algorithm} {local.fingerprint.value}",
        "a=setup:passive",
    ]
    for index, address in enumerate(local.addresses):
        # RFC 8445 section 5.1.2.1: type preference 126 (host), local preference falling, component 1.
        priority = (126 << 24) | ((65535 - index) << 8) | 255
        lines.append(f"a=candidate:{index + 1} 1 udp {priority} {address} {local.port} typ host")
    return [*lines, "a=end-of-candidates"]


def _audio_lines(payload_type: int, direction: str, local: LocalDescription) -> list[str]:
    lines = [f"a={direction}", "a=rtcp-mux", f"a=rtpmap:{payload_type} opus/48000/2"]
    lines += [f"a=fmtp:{payload_type} {_OPUS_FMTP}", f"a=ptime:{PTIME_MS}"]
    if direction in ("sendrecv", "sendonly"):
        lines += [f"a=msid:{local.cname} agent", f"a=ssrc:{local.ssrc} cname:{local.cname}"]
    return lines
