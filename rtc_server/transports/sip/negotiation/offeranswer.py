"""Offer and answer for one phone call (RFC 3264, and RFC 4568 for its keys): pure text work, no sockets, no clock.

One audio section is taken; all others are answered with port 0, in their places. An offer that cannot be taken changes
nothing: the caller of `MediaNegotiation` answers it with the status it raises, and the call goes on as it was.

Three ways to hold a call are met: a direction (sendonly or inactive), the address 0.0.0.0 or the discard port 9
(RFC 2543), and a section that is taken away with port 0. In each of them nothing is sent to where it was.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rtc_server.media.audioformat import CodecName
from rtc_server.transports.sip.negotiation.agreedmedia import (
    PTIME_MS,
    AgreedMedia,
    Direction,
    LocalMedia,
    MediaPolicy,
    direction_of,
)
from rtc_server.transports.sip.negotiation.codecs import AudioChoice, Encoding, PayloadTypes, choose_codec, meanings
from rtc_server.transports.sip.negotiation.remotemedia import RemoteEnd, check_profile, is_secure, ptime_ms, remote_end
from rtc_server.transports.sip.negotiation.sdes import OFFERED_SUITES, Crypto, SrtpKeys, new_key, usable
from rtc_server.transports.sip.negotiation.sdp import (
    Attribute,
    MediaRefused,
    MediaSection,
    Origin,
    names_of,
    read_description,
    write_description,
)


@dataclass(frozen=True, slots=True)
class _Crypto:
    """The lines of both ends for the keys in use."""

    ours: Crypto
    theirs: Crypto

    @property
    def keys(self) -> SrtpKeys:
        return SrtpKeys(send=self.ours.key, receive=self.theirs.key)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A section of the other end's that is good, and what is made of it."""

    section: MediaSection
    remote: RemoteEnd
    choice: AudioChoice
    crypto: _Crypto | None

    def agreed(self) -> AgreedMedia:
        """We send what the other end takes and receive what it gives."""
        return AgreedMedia(
            audio=self.choice.audio,
            remote_rtp=self.remote.rtp,
            remote_rtcp=self.remote.rtcp,
            telephone_event=self.choice.telephone_event,
            direction=direction_of(sends=self.remote.receives, receives=self.remote.sends),
            srtp=None if self.crypto is None else self.crypto.keys,
            ptime_ms=ptime_ms(self.section),
            rtcp_mux=self.remote.rtcp_mux,
        )


@dataclass(frozen=True, slots=True)
class _Offer:
    """What an answer to an offer of ours is measured by."""

    sections: tuple[MediaSection, ...]
    index: int
    crypto: tuple[Crypto, ...]
    numbers: dict[int, Encoding]
    is_first: bool
    """Nothing was agreed on before it."""


class MediaNegotiation:
    """What one call has agreed on, through all of its offers and answers.

    `agreed` is the state, None until the first answer. Every method raises `MediaRefused`, and nothing else, for what
    the other end sent; the state is then what it was. Not thread-safe.

    Args:
        local: where our RTP arrives.
        policy: of the trunk.
        random_bytes: must be fit for secrets.
    """

    def __init__(
        self, local: LocalMedia, policy: MediaPolicy, random_bytes: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self.agreed: AgreedMedia | None = None
        self.offer_pending = False
        """An offer of ours waits for its answer: an offer of the other end is answered 491 (RFC 3261 section 14.2)."""
        self._local = local
        self._policy = policy
        self._random_bytes = random_bytes
        # Some old gateways read 31 bits.
        self._origin = Origin(int.from_bytes(random_bytes(4)) >> 1, 0, local.address)
        self._written: tuple[MediaSection, ...] | None = None
        self._sections: tuple[MediaSection, ...] = ()  # of the last exchange; a later offer of ours keeps their places
        self._index = 0
        self._crypto: _Crypto | None = None
        self._payload_types = PayloadTypes()
        self._offer: _Offer | None = None

    # ---- their offer -------------------------------------------------------------------------------------------------

    def answer_offer(self, body: bytes) -> bytes:
        """The answer to an offer in an INVITE, a re-INVITE or an UPDATE; `agreed` is then what it says.

        Raises: MediaRefused with 400, 488 or 491.
        """
        if self.offer_pending:
            raise MediaRefused(491, "an offer of ours waits for its answer")
        offer = read_description(body)
        if self.agreed is not None and _is_taken_away(offer):
            return self._answer_taken_away(offer, self.agreed)
        index, taken = self._section_to_take(offer)
        self.agreed, self._crypto = taken.agreed(), taken.crypto
        self._payload_types.learn(meanings(taken.section))
        self._offer = None
        ours = () if taken.crypto is None else (taken.crypto.ours,)
        lines = self._transport_lines(taken.choice.attributes, self.agreed.direction, self.agreed.rtcp_mux, ours)
        own = MediaSection("audio", self._local.rtp_port, taken.section.profile, taken.choice.formats, lines)
        return self._write(tuple(own if at == index else other.rejected() for at, other in enumerate(offer)), index)

    def _section_to_take(self, offer: Sequence[MediaSection]) -> tuple[int, _Taken]:
        """The audio section in use, else an encrypted one, else the first that is any good."""
        live = [(index, section) for index, section in enumerate(offer) if section.kind == "audio" and section.port]
        if not live:
            if any(section.kind == "audio" for section in offer):
                raise MediaRefused(488, "the audio has port 0, which means that there is none", 304)
            raise MediaRefused(488, f"only audio is taken, and this offers {names_of(offer)}", 304)
        live.sort(key=lambda item: (self.agreed is None or item[0] != self._index, not is_secure(item[1])))
        refusals = []
        for index, section in live:
            try:
                return index, self._take(section)
            except MediaRefused as refusal:
                refusals.append(refusal)
        raise refusals[0]

    def _take(self, section: MediaSection) -> _Taken:
        # A call that is encrypted stays so: whoever sits in between must not talk it out of that.
        check_profile(section, self._policy.srtp if self._crypto is None else "require")
        remote = remote_end(section, self._local.ip_version)
        in_use = None if self.agreed is None else self.agreed.audio.codec
        choice = choose_codec(section, self._policy.codecs, in_use, rtcp_mux=remote.rtcp_mux)
        return _Taken(section, remote, choice, self._crypto_for(section) if is_secure(section) else None)

    def _crypto_for(self, section: MediaSection) -> _Crypto:
        """The keys for an offer of SRTP.

        A key of the other end that is new gets a new one of ours: whoever has it now knows no rollover counter.
        """
        lines = usable(section.values("crypto"))
        if not lines:
            raise MediaRefused(488, f"{section.profile} without an a=crypto line that can be used here", 306)
        if self._crypto is not None and self._crypto.theirs in lines:
            return self._crypto
        theirs = lines[0]
        return _Crypto(Crypto(theirs.tag, new_key(theirs.key.suite, self._random_bytes)), theirs)

    def _answer_taken_away(self, offer: Sequence[MediaSection], agreed: AgreedMedia) -> bytes:
        self.agreed = _held(agreed)
        self._offer = None
        return self._write(tuple(section.rejected() for section in offer), self._index)

    # ---- our offer ---------------------------------------------------------------------------------------------------

    def make_offer(self) -> bytes:
        """An offer of everything the trunk's settings allow: in an INVITE of ours, or in the 200 to an INVITE without
        one. It waits for `take_answer` or `drop_offer`.

        Always ``sendrecv``: we hold nobody, and that the other end holds the call is no reason for anything else (RFC
        6337 section 5.3).
        """
        crypto = self._offered_crypto()
        formats, explained, numbers = self._payload_types.offer(self._offered_codecs())
        mux = self.agreed is not None and self.agreed.rtcp_mux
        lines = self._transport_lines(explained, "sendrecv", mux, crypto)
        profile = "RTP/SAVP" if crypto else "RTP/AVP"
        index = min(self._index, len(self._sections))
        places = [section.rejected() for section in self._sections]
        places[index : index + 1] = [MediaSection("audio", self._local.rtp_port, profile, formats, lines)]
        self._offer = _Offer(tuple(places), index, crypto, numbers, self.agreed is None)
        self.offer_pending = True
        return self._describe(self._offer.sections)

    def take_answer(self, body: bytes) -> AgreedMedia:
        """The answer to our offer. One offer may be answered again, by a 200 after a 183 or by another branch of a
        forked INVITE: the last answer counts. Port 0 holds a call that runs; in an answer to the first offer it leaves
        no audio at all, whatever was taken before the 200.

        Raises: MediaRefused; an answer cannot be refused in SIP, so that the call then ends with a BYE.
        """
        if self._offer is None:
            raise MediaRefused(400, "an answer, and no offer of ours before it")
        if not body:
            raise MediaRefused(400, "the answer has no session description")
        offer = self._offer
        sections = read_description(body)
        section = sections[offer.index] if offer.index < len(sections) else None
        if section is None or section.kind != "audio":
            raise MediaRefused(488, f"the answer does not fit the offer: {names_of(sections)}", 304)
        if section.port:
            self._take_section(offer, section)
        elif self.agreed is None or offer.is_first:
            raise MediaRefused(488, "the answer refuses the audio", 304)
        else:
            self.agreed = _held(self.agreed)
        self.offer_pending = False
        self._sections, self._index = offer.sections, offer.index
        assert self.agreed is not None
        return self.agreed

    def _take_section(self, offer: _Offer, section: MediaSection) -> None:
        remote = remote_end(section, self._local.ip_version)
        mux = "rtcp-mux" in dict(offer.sections[offer.index].attributes)
        if remote.rtcp_mux and not mux:
            remote = remote.without_mux()
        choice = choose_codec(section, self._policy.codecs, known=offer.numbers, rtcp_mux=remote.rtcp_mux)
        taken = _Taken(section, remote, choice, _answered_crypto(offer, section))
        self.agreed, self._crypto = taken.agreed(), taken.crypto
        self._payload_types.learn(meanings(section, offer.numbers))

    def drop_offer(self) -> None:
        """Our offer was refused, or its call attempt has failed: what was agreed on before holds."""
        self._offer = None
        self.offer_pending = False

    def _offered_codecs(self) -> list[CodecName]:
        """The one in use first, so that it stays where the other end is content with it."""
        in_use = None if self.agreed is None else self.agreed.audio.codec
        return sorted(self._policy.codecs, key=lambda codec: codec != in_use)

    def _offered_crypto(self) -> tuple[Crypto, ...]:
        """Lines for an encrypted offer, else (). The key in use is offered again, and nothing beside it."""
        if self._crypto is not None:
            return (self._crypto.ours,)
        if self._policy.srtp != "require":
            return ()
        return tuple(Crypto(tag, new_key(suite, self._random_bytes)) for tag, suite in enumerate(OFFERED_SUITES, 1))

    # ---- both --------------------------------------------------------------------------------------------------------

    def _transport_lines(
        self, explained: list[Attribute], direction: Direction, rtcp_mux: bool, crypto: Sequence[Crypto]
    ) -> tuple[Attribute, ...]:
        lines = [*explained, *(("crypto", line.value) for line in crypto), ("ptime", str(PTIME_MS)), (direction, None)]
        if rtcp_mux:
            lines.append(("rtcp-mux", None))
        elif self._local.rtcp_port != self._local.rtp_port + 1:
            lines.append(("rtcp", str(self._local.rtcp_port)))  # RFC 3605
        return tuple(lines)

    def _write(self, sections: tuple[MediaSection, ...], index: int) -> bytes:
        self._sections, self._index = sections, index
        return self._describe(sections)

    def _describe(self, sections: tuple[MediaSection, ...]) -> bytes:
        """What has not changed keeps its version (RFC 3264 section 8)."""
        if sections != self._written:
            self._origin = replace(self._origin, version=self._origin.version + 1)
            self._written = sections
        return write_description(self._origin, sections)


def _is_taken_away(offer: Sequence[MediaSection]) -> bool:
    """Audio with port 0, and nothing in its place."""
    return any(section.kind == "audio" for section in offer) and not any(section.port for section in offer)


def _held(agreed: AgreedMedia) -> AgreedMedia:
    return replace(agreed, direction="inactive", remote_rtp=None, remote_rtcp=None)


def _answered_crypto(offer: _Offer, section: MediaSection) -> _Crypto | None:
    """The line that was taken out of those that we offered (RFC 4568 section 5.1.3)."""
    if is_secure(section) != bool(offer.crypto):
        raise MediaRefused(488, f"the answer has another profile than the offer: {section.profile}", 302)
    if not offer.crypto:
        return None
    offered = {line.tag: line for line in offer.crypto}
    for theirs in usable(section.values("crypto")):
        ours = offered.get(theirs.tag)
        if ours is not None and ours.key.suite == theirs.key.suite:
            return _Crypto(ours, theirs)
    raise MediaRefused(488, "the answer has no a=crypto line of the offer's", 306)
