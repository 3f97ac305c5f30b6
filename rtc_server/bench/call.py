"""One light call: signalling, ICE, DTLS, packets encoded beforehand going up, raw packets kept as they come down.

Light means: no jitter buffer, no codec, no task per packet. What comes is stored as it came off the socket and opened
after the run, so that many calls fit beside each other on a core that is not the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence

from aiortc import RTCCertificate, RTCDataChannel
from aiortc.rtcdatachannel import RTCDataChannelParameters
from aiortc.rtcsctptransport import RTCSctpCapabilities
from pylibsrtp import Error as SrtpError

from rtc_server.bench.analysis import ReceivedPacket
from rtc_server.bench.figures import Setup
from rtc_server.bench.ice import CONSENT_EVERY_S, ControllingIce
from rtc_server.bench.impairment import Uplink
from rtc_server.bench.sdp import MAX_MESSAGE_BYTES, make_offer, read_answer
from rtc_server.bench.signaling import Answer, Signaling
from rtc_server.bench.signals import PACKET_S
from rtc_server.errors import DtlsFailed, PeerError
from rtc_server.media import rtp
from rtc_server.transports.webrtc.contract import EventSctp, SecureTransport

DTLS_TIMEOUT_S = 10.0
FIRST_PACKET_TIMEOUT_S = 10.0
TIMESTAMPS_PER_PACKET = 960


class Call:
    """Not restartable. Loop thread only."""

    def __init__(self, payloads: Sequence[bytes], loop_offset_packets: int, uplink: Uplink) -> None:
        self.setup = Setup()
        self.uplink = uplink
        self.loop_offset_packets = loop_offset_packets
        self.events = 0
        self.first_capture_s: float | None = None
        """When the first sample of the first packet was captured."""
        self._payloads = payloads
        self._raw: list[tuple[float, bytes]] = []
        self._first_packet = asyncio.Event()
        self._sequence = random.getrandbits(15)
        self._timestamp = random.getrandbits(31)
        self._ssrc = random.getrandbits(32)
        self._sent = 0
        self._consent_due_s = 0.0
        self._payload_type = 0
        self._signaling: Signaling | None = None
        self._answer: Answer | None = None
        self._ice: ControllingIce | None = None
        self._dtls: SecureTransport | None = None
        self._sctp: EventSctp | None = None
        self._channel: RTCDataChannel | None = None

    # ---- set-up ------------------------------------------------------------------------------------------------------

    async def connect(self, signaling: Signaling, certificate: RTCCertificate, events: bool) -> None:
        """From the offer to a DTLS connection; then `send_packet` may be called. Free with `close`, also on failure.

        Raises: PeerError and its kinds.
        """
        self._signaling = signaling
        ice = self._ice = ControllingIce(self._on_media)
        offer = make_offer(certificate, ice.ufrag, ice.password, events)
        self.setup.posted_s = time.monotonic()
        self._answer = await signaling.exchange(offer)
        self.setup.answered_s = time.monotonic()
        remote = read_answer(self._answer.sdp)
        self._payload_type = remote.payload_type
        await ice.connect(remote.ufrag, remote.password, remote.candidates)
        ice.role = "controlling" if remote.takes_client_role else "controlled"
        dtls = self._dtls = SecureTransport(ice, certificate)
        try:
            await asyncio.wait_for(dtls.start(remote.dtls), DTLS_TIMEOUT_S)
        except TimeoutError:
            raise DtlsFailed(f"the DTLS handshake took longer than {DTLS_TIMEOUT_S:g} s") from None
        if dtls.state != "connected":
            raise DtlsFailed("the DTLS handshake failed")
        self.setup.dtls_s = time.monotonic()
        if remote.sctp_port is not None and events:
            await self._open_events(dtls, remote.sctp_port)

    async def _open_events(self, dtls: SecureTransport, sctp_port: int) -> None:
        self._sctp = EventSctp(dtls)
        await self._sctp.start(RTCSctpCapabilities(maxMessageSize=MAX_MESSAGE_BYTES), sctp_port)
        self._channel = RTCDataChannel(self._sctp, RTCDataChannelParameters(label="events", ordered=True))
        self._channel.on("message", self._on_event)

    async def first_packet(self) -> None:
        """Wait for the agent's first packet.

        Raises: PeerError when none comes.
        """
        try:
            await asyncio.wait_for(self._first_packet.wait(), FIRST_PACKET_TIMEOUT_S)
        except TimeoutError:
            raise PeerError(f"connected, but no audio came within {FIRST_PACKET_TIMEOUT_S:g} s") from None

    async def close(self) -> None:
        """Say goodbye by every way there is, and free the socket. May be called twice."""
        if self._signaling is not None and self._answer is not None:
            answer, self._answer = self._answer, None
            await self._signaling.hang_up(answer)
        with contextlib.suppress(ConnectionError):
            if self._sctp is not None:
                await self._sctp.stop()
            if self._dtls is not None:
                await self._dtls.stop()
        if self._ice is not None:
            self._ice.close()

    # ---- packets -----------------------------------------------------------------------------------------------------

    def send_packet(self, due_s: float) -> None:
        """The microphone's next 20 ms, whose last sample was captured at `due_s`."""
        if self._ice is None or self._dtls is None or self._dtls.tx_srtp is None:
            return
        if self.first_capture_s is None:
            self.first_capture_s = due_s - PACKET_S
        payload = self._payloads[(self._sent + self.loop_offset_packets) % len(self._payloads)]
        packet = rtp.write_packet(self._payload_type, self._sequence, self._timestamp, self._ssrc, payload)
        self._sent += 1
        self._sequence = (self._sequence + 1) & 0xFFFF
        self._timestamp = (self._timestamp + TIMESTAMPS_PER_PACKET) & 0xFFFFFFFF
        protected = self._dtls.tx_srtp.protect(packet)
        if not self.uplink.loses(due_s):
            self._ice.send(protected)
        if due_s >= self._consent_due_s:
            self._consent_due_s = due_s + CONSENT_EVERY_S
            self._ice.refresh_consent()

    def packets_sent_by(self, now: float) -> int:
        """How many packets the microphone had filled at `now`."""
        if self.first_capture_s is None:
            return 0
        return min(self._sent, max(0, int((now - self.first_capture_s) / PACKET_S)))

    def received(self) -> list[ReceivedPacket]:
        """Everything that came, authenticated and decrypted, in order of arrival. Once, after the run.

        Packets that fail authentication, or are no RTP of the agreed payload type, are left out.
        """
        if self._dtls is None or self._dtls.rx_srtp is None:
            return []
        unprotect = self._dtls.rx_srtp.unprotect
        packets: list[ReceivedPacket] = []
        for arrival_s, data in self._raw:
            try:
                packet = rtp.RtpPacket.parse(unprotect(data))
            except (SrtpError, rtp.MalformedRtp):
                continue
            if packet.payload_type == self._payload_type and packet.payload:
                packets.append(ReceivedPacket(packet.sequence_number, packet.timestamp, arrival_s, packet.payload))
        self._raw.clear()
        return packets

    def _on_media(self, data: bytes, arrival_s: float) -> None:
        if rtp.is_rtcp(data):
            return
        if not self._raw:
            self.setup.first_packet_s = arrival_s
            self._first_packet.set()
        self._raw.append((arrival_s, data))

    def _on_event(self, _message: str | bytes) -> None:
        self.events += 1
