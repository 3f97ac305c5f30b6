"""One light call over WebRTC: signalling, ICE, DTLS, and the data channel for events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from typing import Any

from aiortc import RTCCertificate, RTCDataChannel
from aiortc.rtcdatachannel import RTCDataChannelParameters
from aiortc.rtcsctptransport import RTCSctpCapabilities
from pylibsrtp import Error as SrtpError

from rtc_server.bench.ice import CONSENT_EVERY_S, ControllingIce
from rtc_server.bench.impairment import Uplink
from rtc_server.bench.lightcall import LightCall
from rtc_server.bench.sdp import MAX_MESSAGE_BYTES, RemoteEnd, first_origin, make_offer, next_origin, read_answer
from rtc_server.bench.signaling import Answer, Signaling
from rtc_server.bench.stampedsocket import Address
from rtc_server.bench.stream import OutgoingStream
from rtc_server.bench.voice import Voice
from rtc_server.errors import DtlsFailed, PeerError
from rtc_server.media import rtcp, rtp
from rtc_server.transports.webrtc.contract import EventSctp, SecureTransport

DTLS_TIMEOUT_S = 10.0
EVENT_TIMEOUT_S = 10.0


class Call(LightCall):
    """Not restartable. Loop thread only.

    Args:
        voice: what the microphone hears.
        uplink: loses packets before they reach the network.
        via: a relay's address, used in the place of the answer's candidates.
        red: offer redundant audio (RFC 2198), and send it with one copy where the answer takes it.
    """

    def __init__(
        self, voice: Voice, uplink: Uplink | None = None, via: Address | None = None, red: bool = False
    ) -> None:
        super().__init__(OutgoingStream(voice), uplink)
        self._via = via
        self._offers_red = red
        self._consent_due_s = 0.0
        self._origin = first_origin()
        self._certificate: RTCCertificate | None = None
        self._offers_events = False
        self._signaling: Signaling | None = None
        self._answer: Answer | None = None
        self._remote: RemoteEnd | None = None
        self._ice: ControllingIce | None = None
        self._dtls: SecureTransport | None = None
        self._sctp: EventSctp | None = None
        self._channel: RTCDataChannel | None = None
        self._latest: dict[str, dict[str, Any]] = {}
        """The last event of each type."""
        self._event_came = asyncio.Event()

    # ---- set-up ------------------------------------------------------------------------------------------------------

    async def connect(
        self, signaling: Signaling, certificate: RTCCertificate, events: bool, seed: int | None = None
    ) -> None:
        """From the offer to a DTLS connection; then `send_packet` may be called. Free with `close`, also on failure.

        Raises: PeerError and its kinds.
        """
        self._signaling, self._certificate, self._offers_events = signaling, certificate, events
        ice = self._ice = ControllingIce(self._on_media)
        self.setup.posted_s = time.monotonic()
        self._answer = await signaling.exchange(self._offer(ice), seed)
        self.setup.answered_s = time.monotonic()
        remote = self._remote = read_answer(self._answer.sdp)
        await ice.connect(remote.ufrag, remote.password, self._candidates(remote))
        ice.role = "controlling" if remote.takes_client_role else "controlled"
        dtls = self._dtls = SecureTransport(ice, certificate)
        try:
            await asyncio.wait_for(dtls.start(remote.dtls), DTLS_TIMEOUT_S)
        except TimeoutError:
            raise DtlsFailed(f"the DTLS handshake took longer than {DTLS_TIMEOUT_S:g} s") from None
        if dtls.state != "connected":
            raise DtlsFailed("the DTLS handshake failed")
        self.setup.dtls_s = time.monotonic()
        self.stream.agreed(remote.payload_type, remote.red_payload_type, remote.bitrate_bps)
        if remote.sctp_port is not None and events:
            await self._open_events(dtls, remote.sctp_port)

    async def restart_ice(self) -> None:
        """New credentials, a new socket, the same DTLS connection; audio goes on meanwhile (RFC 8839 section 4.4).

        Raises: PeerError when the server refuses, or none of its candidates answers; the call then goes on as it was.
        """
        assert self._ice is not None and self._signaling is not None and self._answer is not None
        self._ice.begin_restart()
        self._origin = next_origin(self._origin)
        remote = read_answer(await self._signaling.update(self._answer, self._offer(self._ice)))
        await self._ice.restart(remote.ufrag, remote.password, self._candidates(remote))

    def network_changed(self) -> None:
        """Tell the server where we are now, as a client does that was told by its system."""
        if self._ice is not None:
            self._ice.refresh_consent()

    def _offer(self, ice: ControllingIce) -> str:
        assert self._certificate is not None
        return make_offer(
            self._certificate, ice.ufrag, ice.password, self._offers_events, self._offers_red, self._origin
        )

    def _candidates(self, remote: RemoteEnd) -> Sequence[Address]:
        return remote.candidates if self._via is None else (self._via,)

    async def _open_events(self, dtls: SecureTransport, sctp_port: int) -> None:
        self._sctp = EventSctp(dtls)
        await self._sctp.start(RTCSctpCapabilities(maxMessageSize=MAX_MESSAGE_BYTES), sctp_port)
        self._channel = RTCDataChannel(self._sctp, RTCDataChannelParameters(label="events", ordered=True))
        self._channel.on("message", self._on_message)

    async def event(self, kind: str, later_than: int = -1) -> dict[str, Any]:
        """The last event of a type, waited for if there is none with a `seq` above `later_than` yet.

        Raises: PeerError when none comes.
        """
        try:
            async with asyncio.timeout(EVENT_TIMEOUT_S):
                while (latest := self.latest(kind)) is None or int(latest.get("seq", 0)) <= later_than:
                    self._event_came.clear()
                    await self._event_came.wait()
        except TimeoutError:
            raise PeerError(f"no event {kind} came within {EVENT_TIMEOUT_S:g} s") from None
        return latest

    def latest(self, kind: str) -> dict[str, Any] | None:
        """The last event of a type; None before the first."""
        return self._latest.get(kind)

    @property
    def sends_red(self) -> bool:
        """Both ends agreed on redundant audio."""
        return self._remote is not None and self._remote.red_payload_type is not None

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
        packet = self.next_packet(due_s)
        if packet is not None:
            self._ice.send(self._dtls.tx_srtp.protect(packet))
        if due_s >= self._consent_due_s:
            self._consent_due_s = due_s + CONSENT_EVERY_S
            self._ice.refresh_consent()

    def _opened(self, datagram: bytes) -> rtp.RtpPacket | None:
        if self._dtls is None or self._dtls.rx_srtp is None or self._remote is None:
            return None
        try:
            packet = rtp.RtpPacket.parse(self._dtls.rx_srtp.unprotect(datagram))
        except (SrtpError, rtp.MalformedRtp):
            return None
        return packet if packet.payload_type == self._remote.payload_type else None

    def _on_media(self, data: bytes, arrival_s: float) -> None:
        if rtp.is_rtcp(data):
            self._on_rtcp(data)
            return
        self.keep(data, arrival_s)

    def _on_rtcp(self, data: bytes) -> None:
        if self._dtls is None or self._dtls.rx_srtp is None:
            return
        with contextlib.suppress(SrtpError, rtcp.MalformedRtcp):
            self.stream.reported(rtcp.parse(self._dtls.rx_srtp.unprotect_rtcp(data)))

    def _on_message(self, message: str | bytes) -> None:
        try:
            value = json.loads(message)
        except ValueError:  # other servers send other things
            return
        for event in value if isinstance(value, list) else [value]:  # an array: the events of one tick
            self.events += 1
            if isinstance(event, dict) and isinstance(event.get("type"), str):
                self._latest[event["type"]] = event
        self._event_came.set()
