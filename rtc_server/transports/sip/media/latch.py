"""Where a call's packets may come from, and where ours go: symmetric RTP (RFC 4961), with a bound on whom to believe.

A phone behind NAT names an address that nobody reaches, and its packets come from another one. So a call that hears
nothing from the address in its description latches onto the first source that proves itself: by SRTP, or by a few
packets in a row that fit. It does so once behind a negotiation, and towards two hosts only: the one in the description,
and the one that the signalling comes from. Any other host is believed in the first seconds alone, and only if it has
the keys of SRTP, or nothing was described that can surely be reached. All else is dropped. Whoever sprays packets over
the ports of a server neither hears a call nor speaks in it, however silent its caller is. One gap is left, and SRTP
closes it: of a caller who names no address that can be reached, a stranger who is faster may take the place.

A call may get the ports of one that ended a moment ago, whose peer has not noticed: that stream proves nothing. Nor
does, for a moment, the source that was heard until another address was described: it sends until it knows of our
answer. If it is believed later, since nothing else has come, it may be replaced all the same.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from rtc_server.media.rtp import MalformedRtp, RtpPacket, is_rtcp
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.hosts import private_network

WINDOW_S = 10.0
"""How long behind a negotiation a host that nobody has named may prove to be the other end."""
PACKETS_IN_A_ROW = 3
"""How many packets of plain RTP prove a source: one SSRC, no number left out, payload types that were agreed on."""
SILENT_S = 0.5
"""A source from before the negotiation is given up for another one when it has been silent for so long."""
UNDER_WAY_S = 0.5
"""How long behind a description with another address what comes from the source before says nothing."""
MAX_CANDIDATES = 8
"""Sources looked at in one window; the one seen first makes room."""


class Stream(NamedTuple):
    """What comes from one sender. A phone that calls again from the same port has another SSRC (RFC 3550 section 8)."""

    source: Address
    ssrc: int


class FormerStream(NamedTuple):
    """Of the call before, on the same ports."""

    stream: Stream
    until_s: float
    """How long it may still come, monotonic seconds."""


class Latch:
    """The other end's addresses in one call. Sans-IO; `now` is monotonic seconds.

    Bounds: `MAX_CANDIDATES` sources with `PACKETS_IN_A_ROW` packets each.

    Args:
        former: the peer of the call before may still be sending this.
    """

    def __init__(self, former: FormerStream | None = None) -> None:
        self._former = former
        self._last_packet = b""
        """Of the source."""
        self.source: Address | None = None
        """Where RTP comes from, once that is known."""
        self._described: Address | None = None
        """RTP, as the other end's last description with an address has it."""
        self._named: Address | None = None
        """The same, where it can be reached."""
        self._named_rtcp: Address | None = None
        self._may_be_anywhere = True
        """Nothing was described that can surely be reached."""
        self._peer_host: str | None = None
        self._payload_types: Collection[int] = ()
        self._authenticated = False
        self._muxed = False
        self._window_end_s = 0.0
        self._heard_s = 0.0
        self._may_move = False
        """The source is one from before the last negotiation."""
        self._left: Address | None = None
        """The source before the other end has described another address."""
        self._left_until_s = 0.0
        self._candidates: dict[Address, _Candidate] = {}
        self._rtcp_source: Address | None = None

    def negotiated(
        self,
        now: float,
        rtp: Address | None,
        rtcp: Address | None,
        payload_types: Collection[int],
        *,
        authenticated: bool,
        muxed: bool = False,
        peer_host: str | None = None,
    ) -> None:
        """Offer and answer were exchanged: the next seconds decide who the other end is.

        Args:
            rtp, rtcp: as in the other end's description; None where it names nothing to send to.
            payload_types: what the other end may send.
            authenticated: SRTP; then nothing counts that `heard` was not told of.
            muxed: RTCP comes and goes with RTP.
            peer_host: where the signalling comes from.
        """
        if self.source == self._left:
            self._left = None  # it goes on from there, whatever it describes
        if rtp is not None:
            if rtp != self._described:
                self._left, self._left_until_s = self.source, now + UNDER_WAY_S
                self.source = self._rtcp_source = None
            known = reachable(rtp[0], peer_host)
            self._described = rtp
            self._named, self._named_rtcp = (rtp, rtcp) if known else (None, None)
            self._may_be_anywhere = not known or _may_be_behind_nat(rtp[0], peer_host)
        self._peer_host = peer_host
        self._payload_types = payload_types
        self._authenticated, self._muxed = authenticated, muxed
        self._window_end_s = now + WINDOW_S
        self._may_move = True
        self._candidates.clear()

    @property
    def stream(self) -> Stream | None:
        """What is heard; None before two packets of the source have come."""
        ssrc = self._last_packet[4:8] if is_rtcp(self._last_packet) else self._last_packet[8:12]
        return None if self.source is None or len(ssrc) < 4 else Stream(self.source, int.from_bytes(ssrc))

    @property
    def is_found(self) -> bool:
        """The source is another one than the address that was negotiated."""
        return self.source is not None and self.source != self._named

    @property
    def host_named_by(self) -> Literal["description", "signalling"] | None:
        """Who has named the host of the source."""
        return None if self.source is None else self._namer_of(self.source[0])

    @property
    def destination(self) -> Address | None:
        """Where our RTP goes; None while nobody knows."""
        return self.source or self._named

    @property
    def rtcp_destination(self) -> Address | None:
        """Where our RTCP goes. It follows RTP: a port that NAT has changed is not guessed."""
        if self._muxed:
            return self.destination
        if self._rtcp_source is not None:
            return self._rtcp_source
        return self._named_rtcp if self.source in (None, self._named) else None

    # ---- RTP ---------------------------------------------------------------------------------------------------------

    def admit(self, now: float, source: Address, packet: bytes) -> Sequence[bytes]:
        """One datagram on the RTP port. Returns what is to be taken in: nothing, this one, or with it those of before
        that have been waiting for proof."""
        if source == self.source:
            self._heard_s, self._last_packet = now, packet
            return (packet,)
        if source == self._named:
            # The address that was negotiated needs no other proof, and is better than what was found without it.
            if not self._authenticated:
                self._settle(now, source)
            return (packet,)
        if not self._may_latch(now, source):
            return ()
        if self._authenticated:
            return (packet,)
        return self._prove(now, source, packet)

    def heard(self, now: float, source: Address) -> None:
        """What `admit` let through has authenticated: it is the other end's."""
        if source != self.source and (source == self._named or self._may_latch(now, source)):
            self._settle(now, source)

    def _may_latch(self, now: float, source: Address) -> bool:
        if source == self._left and now < self._left_until_s:
            return False
        told_of = self._namer_of(source[0]) is not None
        # An address that can be reached is where the other end wants to be heard, whether it speaks or not.
        anybody = now < self._window_end_s and (self._authenticated or self._may_be_anywhere)
        if self.source is None:
            return told_of or anybody
        if self.source == self._named or not self._may_move or now - self._heard_s < SILENT_S:
            return False
        return told_of or (anybody and (self._peer_host is None or self.source == self._left))

    def _namer_of(self, host: str) -> Literal["description", "signalling"] | None:
        if self._described is not None and host == self._described[0]:
            return "description"
        return "signalling" if host == self._peer_host else None

    def _prove(self, now: float, source: Address, data: bytes) -> Sequence[bytes]:
        try:
            packet = RtpPacket.parse(data)
        except MalformedRtp:
            return ()
        if packet.payload_type not in self._payload_types or not packet.payload:
            return ()
        if self._former is not None and now < self._former.until_s and self._former.stream == (source, packet.ssrc):
            return ()
        candidate = self._candidates.get(source)
        if candidate is None:
            if len(self._candidates) >= MAX_CANDIDATES:
                del self._candidates[next(iter(self._candidates))]
            candidate = self._candidates[source] = _Candidate()
        candidate.take(packet, data)
        if len(candidate.packets) < PACKETS_IN_A_ROW:
            return ()
        self._settle(now, source)
        return candidate.packets

    def _settle(self, now: float, source: Address) -> None:
        if self.source is None or source[0] != self.source[0]:
            self._rtcp_source = None
        self._last_packet = b""
        self.source, self._heard_s = source, now
        self._may_move = source == self._left
        self._candidates.clear()

    # ---- RTCP --------------------------------------------------------------------------------------------------------

    def admits_rtcp(self, source: Address) -> bool:
        """Whether a datagram on the RTCP port is to be looked at: one of the host that RTP comes from, or goes to."""
        if self._rtcp_source is not None:
            return source == self._rtcp_source
        rtp = self.destination
        return source == self._named_rtcp or (rtp is not None and source[0] == rtp[0])

    def heard_rtcp(self, source: Address) -> None:
        """What was admitted was RTCP indeed."""
        self._rtcp_source = source


class _Candidate:
    """A source on its way to being believed."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []
        self._last: tuple[int, int] | None = None
        """(SSRC, sequence number)."""

    def take(self, packet: RtpPacket, data: bytes) -> None:
        if self._last != (packet.ssrc, (packet.sequence_number - 1) & 0xFFFF):
            self.packets.clear()
        self.packets.append(data)
        self._last = packet.ssrc, packet.sequence_number


def reachable(host: str, peer_host: str | None) -> bool:
    """Whether it makes sense to send to `host`, an IP literal, of a peer whose signalling comes from `peer_host`.

    A private address is good among neighbours; from far away it is one behind the peer's NAT.
    """
    address = ipaddress.ip_address(host)
    if address.is_unspecified or address.is_multicast or host == "255.255.255.255":
        return False
    return peer_host is None or private_network(host) is None or private_network(peer_host) is not None


def _may_be_behind_nat(host: str, peer_host: str | None) -> bool:
    """A private address is surely that of a neighbour only where the signalling comes from the same network."""
    network = private_network(host)
    return network is not None and (peer_host is None or private_network(peer_host) != network)
