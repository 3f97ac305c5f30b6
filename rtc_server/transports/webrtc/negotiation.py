"""Offer in, answer out (RFC 3264, 8829): pure text work, no sockets, no clock.

One audio section and at most one data channel are taken, on one transport. `codecchoice` says which codec, `answer` how
it is written down, and this module what is refused and what a later offer of the same call may change: directions,
further sections, ICE credentials, payload types. Codec, DTLS role, DTLS fingerprint and ICE roles stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rtc_server.errors import BadOffer, UnsupportedOffer
from rtc_server.transports.webrtc.answer import SCTP_PORT, write_answer
from rtc_server.transports.webrtc.codecchoice import choose_audio, no_codec
from rtc_server.transports.webrtc.offer import Fingerprint, Offer, Section, parse_offer, whole_number
from rtc_server.transports.webrtc.remotecandidates import usable_candidates
from rtc_server.transports.webrtc.sdp import (
    AgreedPath,
    DtlsRole,
    LocalDescription,
    Negotiated,
    RemoteCandidate,
    SctpParameters,
    SectionState,
)

_STRONG_DIGEST_BYTES = {"sha-256": 32, "sha-384": 48, "sha-512": 64}
_ANSWER_DIRECTION = {"sendrecv": "sendrecv", "sendonly": "recvonly", "recvonly": "sendonly", "inactive": "inactive"}
_ANSWER_ROLE: dict[str, DtlsRole] = {"passive": "active", "active": "passive"}
_DEFAULT_MAX_MESSAGE_BYTES = 65536
"""RFC 8841 section 6.1."""


def answer_offer(offer_sdp: str, local: LocalDescription, previous: Negotiated | None = None) -> Negotiated:
    """Answer an offer, or a later offer of the same call; nothing is changed when it is refused.

    Raises: BadOffer for an offer that is wrong, UnsupportedOffer for one that asks for what this server does not do.
    """
    offer = parse_offer(offer_sdp)
    section = _audio_section(offer) if previous is None else _kept_audio_section(offer, previous)
    if "rtcp-mux" not in section.attributes.first:
        raise UnsupportedOffer("the audio section has no a=rtcp-mux", hint="RTP and RTCP share one port here")
    ufrag, pwd = offer.ice_credentials(section)
    fingerprints = _strong_fingerprints(offer, section)
    in_use = None if previous is None else previous.audio
    audio = choose_audio(section, in_use)
    if audio is None:
        raise no_codec(section, in_use)
    if previous is not None:
        _check_same_peer(offer.is_ice_lite(section), fingerprints, previous)
    data = _data_section(offer, section, previous)
    agreed = Negotiated(
        answer_sdp="",
        version=1 if previous is None else previous.version + 1,
        sections=tuple(SectionState(item.kind, item.mid, item is section or item is data) for item in offer.sections),
        remote_ufrag=ufrag,
        remote_pwd=pwd,
        remote_fingerprints=fingerprints,
        audio=audio,
        direction=_ANSWER_DIRECTION[offer.direction(section)],
        sctp=None if data is None else _sctp(data),
        setup=_dtls_role(offer, section, previous),
        remote_lite=offer.is_ice_lite(section),
        remote_candidates=_candidates_of_lite_peer(offer, section, local.peers_on_loopback),
        restarts_ice=previous is not None and (ufrag, pwd) != (previous.remote_ufrag, previous.remote_pwd),
    )
    return replace(agreed, answer_sdp=write_answer(offer, agreed, local))


def answer_data_offer(offer_sdp: str, local: LocalDescription) -> AgreedPath:
    """Answer an offer for its data channel alone: whatever else it asks for is turned down.

    Raises: BadOffer, UnsupportedOffer.
    """
    offer = parse_offer(offer_sdp)
    section = next((section for section in offer.sections if _is_data(section) and not section.rejected), None)
    if section is None:
        raise UnsupportedOffer("the offer has no data channel", hint="call createDataChannel before createOffer")
    ufrag, pwd = offer.ice_credentials(section)
    agreed = AgreedPath(
        answer_sdp="",
        version=1,
        sections=tuple(SectionState(item.kind, item.mid, item is section) for item in offer.sections),
        remote_ufrag=ufrag,
        remote_pwd=pwd,
        remote_fingerprints=_strong_fingerprints(offer, section),
        sctp=_sctp(section),
        setup=_dtls_role(offer, section, None),
        remote_lite=offer.is_ice_lite(section),
        remote_candidates=_candidates_of_lite_peer(offer, section, local.peers_on_loopback),
    )
    return replace(agreed, answer_sdp=write_answer(offer, agreed, local))


# ---- sections --------------------------------------------------------------------------------------------------------


def _audio_section(offer: Offer) -> Section:
    """The first live audio section with the best codec."""
    live = [section for section in offer.sections if section.kind == "audio" and not section.rejected]
    if not live:
        raise UnsupportedOffer("the offer has no audio section", hint="add an audio track or a recvonly transceiver")
    live = [section for section in live if section.is_rtp]
    if not live:
        raise UnsupportedOffer("the audio section is not RTP", hint="use UDP/TLS/RTP/SAVPF")
    return min(live, key=_codec_rank)


def _codec_rank(section: Section) -> int:
    audio = choose_audio(section)
    return 2 if audio is None else int(audio.codec != "opus")


def _kept_audio_section(offer: Offer, previous: Negotiated) -> Section:
    """The audio section of the call, in an offer that leaves the accepted sections in place (RFC 8829 section 5.2.2:
    rejected ones may be used again for something else)."""
    if len(offer.sections) < len(previous.sections):
        raise BadOffer("the offer has fewer media sections than the one before")
    kept = None
    for index, before in enumerate(previous.sections):
        section = offer.sections[index]
        if not before.accepted:
            continue
        if (section.kind, section.mid) != (before.kind, before.mid):
            raise BadOffer(f"media section {index} changed its kind or mid", hint="sections keep their order in a call")
        if before.kind == "audio":
            kept = section
    if kept is None or kept.rejected or not kept.is_rtp:
        raise UnsupportedOffer("the offer takes the audio section away", hint="offer it inactive to hold the call")
    return kept


def _data_section(offer: Offer, audio: Section, previous: Negotiated | None) -> Section | None:
    """The data channel's section, if it shares the audio section's transport; the one in use before any other."""
    bundle = offer.bundle_of(audio)
    in_use = {state.mid for state in previous.sections if state.accepted} if previous is not None else set()
    fitting = [
        section
        for section in offer.sections
        if _is_data(section)
        if not section.rejected and section.mid is not None and section.mid in bundle
    ]
    return min(fitting, key=lambda section: section.mid not in in_use, default=None)


def _is_data(section: Section) -> bool:
    return section.kind == "application" and section.profile in ("UDP/DTLS/SCTP", "TCP/DTLS/SCTP")


def _sctp(data: Section) -> SctpParameters:
    port = whole_number(data.attributes.first.get("sctp-port"), 1, 65535)
    size = whole_number(data.attributes.first.get("max-message-size"), 0, 2**63)
    return SctpParameters(SCTP_PORT if port is None else port, _DEFAULT_MAX_MESSAGE_BYTES if size is None else size)


# ---- transport -------------------------------------------------------------------------------------------------------


def _dtls_role(offer: Offer, audio: Section, previous: Negotiated | None) -> DtlsRole:
    """Our role (RFC 8842 section 5): the server's where we may choose, the one in use in later answers."""
    offered = next(iter(offer.transport_attribute(audio, "setup")), "actpass").lower()
    in_use = None if previous is None else previous.setup
    if offered == "actpass":
        return in_use or "passive"
    role = _ANSWER_ROLE.get(offered)
    if role is None:
        raise BadOffer("malformed a=setup", hint="offer actpass, active or passive")
    if in_use is not None and role != in_use:
        raise UnsupportedOffer(f"the offer is a=setup:{offered} and changes the DTLS role", hint="offer actpass")
    return role


def _candidates_of_lite_peer(offer: Offer, audio: Section, allow_loopback: bool) -> tuple[RemoteCandidate, ...]:
    if not offer.is_ice_lite(audio):
        return ()
    values = offer.transport_attribute(audio, "candidate")
    candidates = usable_candidates(values, allow_loopback=allow_loopback)
    if not candidates:
        raise BadOffer(
            f"the offer is a=ice-lite and none of its {len(values)} candidates can be checked",
            hint="send a=candidate lines with udp, component 1 and an IP address that is reachable from here",
        )
    return candidates


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


def _check_same_peer(lite: bool, fingerprints: Sequence[Fingerprint], previous: Negotiated) -> None:
    """New ICE credentials move a call to another path; another certificate or kind of ICE agent is another call."""
    if set(fingerprints) != set(previous.remote_fingerprints):
        raise UnsupportedOffer("the offer changes the DTLS fingerprint", hint="start a new session")
    if lite != previous.remote_lite:
        was, now = ("lite", "full") if previous.remote_lite else ("full", "lite")
        raise UnsupportedOffer(f"the offer changes from {was} to {now} ICE", hint="start a new session")
