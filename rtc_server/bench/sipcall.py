"""One light phone call: an INVITE and its BYE, and plain RTP with PCMU in between.

There are no reports: what RTCP comes lies unread in its socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from rtc_server.bench.impairment import Uplink
from rtc_server.bench.lightcall import LightCall
from rtc_server.bench.signals import PACKET_S
from rtc_server.bench.sipsignaling import SipSignaling
from rtc_server.bench.stampedsocket import Address, StampedSocket
from rtc_server.bench.stream import OutgoingStream
from rtc_server.bench.voice import Voice
from rtc_server.errors import PeerError
from rtc_server.media import rtp
from rtc_server.media.g711 import RATE_HZ
from rtc_server.transports.sip.dialog.dialog import Dialog
from rtc_server.transports.sip.negotiation.agreedmedia import LocalMedia, MediaPolicy
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation
from rtc_server.transports.sip.negotiation.sdp import MediaRefused

TIMESTAMPS_PER_PACKET = round(RATE_HZ * PACKET_S)
POLICY = MediaPolicy(codecs=("PCMU",), srtp="never")
BITRATE_BPS = 64_000


class SipCall(LightCall):
    """Not restartable.

    Args:
        signaling: shared, and started.
        voice: what the microphone hears, as PCMU.
    """

    def __init__(self, signaling: SipSignaling, voice: Voice, uplink: Uplink | None = None) -> None:
        super().__init__(OutgoingStream(voice, TIMESTAMPS_PER_PACKET), uplink)
        self._signaling = signaling
        self._loop = asyncio.get_running_loop()
        self._rtp: StampedSocket | None = None
        self._rtcp: StampedSocket | None = None
        self._dialog: Dialog | None = None
        self._remote: Address | None = None
        self._payload_type = 0

    async def connect(self) -> None:
        """From the INVITE to the ACK; then `send_packet` may be called. Free with `close`, also on failure.

        Raises: PeerError.
        """
        host = self._signaling.local_host
        self._rtp, self._rtcp = StampedSocket(host), StampedSocket(host)
        self._loop.add_reader(self._rtp.fileno(), self._readable)
        negotiation = MediaNegotiation(LocalMedia(host, self._rtp.port, self._rtcp.port), POLICY)
        offer = negotiation.make_offer()
        self.setup.posted_s = time.monotonic()
        self._dialog, answer = await self._signaling.invite(offer)
        self.setup.answered_s = time.monotonic()
        try:
            agreed = negotiation.take_answer(answer)
        except MediaRefused as refused:
            raise PeerError(f"the server's answer is no good: {refused}") from None
        if agreed.remote_rtp is None or agreed.direction != "sendrecv":
            raise PeerError("the server answered, but takes or sends no audio")
        self._remote = agreed.remote_rtp
        self._payload_type = agreed.audio.payload_type
        self.stream.agreed(self._payload_type, None, BITRATE_BPS)

    async def close(self) -> None:
        if self._dialog is not None:
            dialog, self._dialog = self._dialog, None
            await self._signaling.hang_up(dialog)
        self._remote = None
        if self._rtp is not None:
            self._loop.remove_reader(self._rtp.fileno())
            self._rtp.close()
            self._rtp = None
        if self._rtcp is not None:
            self._rtcp.close()
            self._rtcp = None

    def send_packet(self, due_s: float) -> None:
        if self._rtp is None or self._remote is None:
            return
        packet = self.next_packet(due_s)
        if packet is not None:
            # What is lost is to be seen in the figures.
            with contextlib.suppress(OSError):
                self._rtp.send(packet, self._remote)

    def _opened(self, datagram: bytes) -> rtp.RtpPacket | None:
        try:
            packet = rtp.RtpPacket.parse(datagram)
        except rtp.MalformedRtp:
            return None
        return packet if packet.payload_type == self._payload_type else None

    def _readable(self) -> None:
        if self._rtp is None:
            return
        with contextlib.suppress(OSError):
            datagram, _, arrival_s = self._rtp.receive()
            self.keep(datagram, arrival_s)
