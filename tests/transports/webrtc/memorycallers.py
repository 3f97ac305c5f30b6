"""A browser and our server with no socket between them, on the event loop's own clock: real ICE, DTLS, SRTP and Opus.

The server's side is whole: admission, session, conductor, pacer and leg, with an engine that says what it hears.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Any, Self

import numpy as np
from aiortc import RTCDtlsFingerprint, RTCDtlsParameters

from rtc_server.engine.stepper import SessionPrompt
from rtc_server.media.frames import PACKET_SAMPLES, SAMPLE_RATE, FloatSamples
from rtc_server.media.opus import OpusDecoder, OpusEncoder
from rtc_server.media.rtp import RtpPacket, is_rtcp
from rtc_server.session.session import Session
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.webrtc.contract import Certificate, SecureTransport
from rtc_server.transports.webrtc.peer import WebRtcLeg
from rtc_server.transports.webrtc.udp_mux import UdpMux
from tests.session.conftest import House
from tests.transports.webrtc import offers
from tests.transports.webrtc.checks import request
from tests.transports.websocket.fakes import EchoEngine, LoopClock
from tests.transports.websocket.virtualloop import now

ICE_TIMEOUT_S, DTLS_TIMEOUT_S = 10.0, 5.0
CHECK_EVERY_S = 2.5
"""How often Chromium checks a path that works."""
OPUS = 111
TONE_HZ = 440.0


class Server:
    """Takes calls until it is left; nothing of them is there any more then."""

    def __init__(self, slots: int = 1) -> None:
        self.engine = EchoEngine(slots=slots)
        self.house = House(clock=LoopClock(), engine=self.engine)
        self.pacer = Pacer(now)
        self.mux = UdpMux(now)
        self.mux.port = 8125
        self.certificate = Certificate.generateCertificate()
        self._conducting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.pacer.start()
        self._conducting = asyncio.create_task(self.house.conductor.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.house.registry.close_all("server_stopping")
        await self.pacer.stop()
        assert self._conducting is not None
        self._conducting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._conducting
        self.assert_nothing_left()

    def assert_nothing_left(self) -> None:
        """Of any call, however it ended."""
        assert not len(self.house.registry) and not self.engine.leases
        assert not self.mux.by_ufrag and not self.mux.by_address
        assert not self.pacer._senders

    async def offer(self, offer_sdp: str) -> tuple[Session, WebRtcLeg, str]:
        """What the endpoint does for one offer; the answer is the third."""
        session = await self.house.admission.admit(SessionPrompt())
        attachment = session.expect_leg()
        leg = WebRtcLeg(
            mux=self.mux,
            pacer=self.pacer,
            certificate=self.certificate,
            addresses=("192.0.2.7",),
            peers_on_loopback=False,
            handler=attachment,
            ice_timeout_s=ICE_TIMEOUT_S,
            dtls_timeout_s=DTLS_TIMEOUT_S,
            dtx=False,
            clock=now,
        )
        answer = leg.open(offer_sdp, lambda leg: None)
        attachment.attach(leg)
        return session, leg, answer


class Browser:
    """Stands for the browser and for the network: what either side sends is there at once. It is the DTLS client."""

    role = "controlled"
    state = "completed"

    def __init__(self, server: Server, host: str = "198.51.100.3") -> None:
        self.heard: list[tuple[float, FloatSamples]] = []
        """When each packet of the agent came, and what is in it."""
        self.numbers: list[int] = []
        """Their sequence numbers."""
        self._server = server
        self._address = (host, 40_000)
        self._certificate = Certificate.generateCertificate()
        self._dtls = SecureTransport(self, self._certificate)
        self._records: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._encoder, self._decoder = OpusEncoder(), OpusDecoder()
        self._leg: WebRtcLeg
        self._checking: asyncio.Task[None] | None = None
        self._sequence_number, self._timestamp, self._spoken = 65_000, 2**32 - 96_000, 0

    # ---- what the person does ----------------------------------------------------------------------------------------

    async def call(self) -> Session:
        """Offer, answer, checks, handshake."""
        session, self._leg, _ = await self._server.offer(self.offer())
        self._checking = asyncio.create_task(self._check_on())
        await asyncio.sleep(0)
        fingerprints = [
            RTCDtlsFingerprint(item.algorithm, item.value) for item in self._server.certificate.getFingerprints()
        ]
        await self._dtls.start(RTCDtlsParameters(fingerprints))
        return session

    def offer(self) -> str:
        """Audio both ways, no data channel."""
        (found,) = (item.value for item in self._certificate.getFingerprints() if item.algorithm == "sha-256")
        lines = {"a=group:BUNDLE": "a=group:BUNDLE 0", "a=fingerprint:": f"a=fingerprint:sha-256 {found}"}
        opus_alone = offers.with_codecs(str(OPUS), f"a=rtpmap:{OPUS} opus/48000/2", f"a=fmtp:{OPUS} useinbandfec=1")
        return offers.with_lines(opus_alone.partition("m=application")[0], lines)

    async def speak(self, seconds: float) -> None:
        """A tone, in packets of 20 ms."""
        begin_s = now()
        for number in range(round(seconds / 0.02)):
            await asyncio.sleep(max(0.0, begin_s + number * 0.02 - now()))
            at = np.arange(PACKET_SAMPLES) + self._spoken
            pcm = (0.3 * np.sin(at * 2 * np.pi * TONE_HZ / SAMPLE_RATE)).astype(np.float32)
            packet = RtpPacket(OPUS, self._sequence_number, self._timestamp, 77, self._encoder.encode(pcm))
            assert self._dtls.tx_srtp is not None
            self._to_server(self._dtls.tx_srtp.protect(packet.serialize()))
            self._spoken += PACKET_SAMPLES
            self._sequence_number = (self._sequence_number + 1) & 0xFFFF
            self._timestamp = (self._timestamp + 960) & 0xFFFFFFFF

    def let_the_clock_of_audio_run(self, seconds: float) -> None:
        """The next packet is stamped as if there had been sound all the while."""
        self._timestamp = (self._timestamp + round(seconds * 48_000)) & 0xFFFFFFFF

    async def stop_checking(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.gather(self._checking, return_exceptions=True)

    async def leave(self) -> None:
        """May be called twice."""
        await self.stop_checking()
        await self._dtls.stop()
        self._records.put_nowait(None)
        await asyncio.sleep(0)

    @property
    def delay_ms(self) -> float:
        """Of what this caller says, in our jitter buffer."""
        return self._leg.jitter_buffer.delay_ms

    def heard_since(self, begin_s: float) -> FloatSamples:
        return np.concatenate([np.zeros(0, np.float32), *(pcm for at_s, pcm in self.heard if at_s >= begin_s)])

    # ---- the network -------------------------------------------------------------------------------------------------

    def send(self, data: bytes, destination: tuple[Any, ...]) -> None:
        """`ice.DatagramSocket`: what the server sends."""
        assert destination == self._address
        if 127 < data[0] < 192:
            self._hear(data)
        elif data[0] > 3:
            self._records.put_nowait(data)

    def next_record_once(self) -> None:
        """Nothing is copied here."""

    async def _send(self, data: bytes) -> None:
        self._to_server(data)

    async def _recv(self) -> bytes:
        record = await self._records.get()
        if record is None:
            raise ConnectionError
        return record

    def _to_server(self, data: bytes) -> None:
        self._server.mux.datagram_received(self, data, self._address)  # type: ignore[arg-type]

    async def _check_on(self) -> None:
        while True:
            self._to_server(bytes(request(self._leg.connection.agent, USE_CANDIDATE=None)))
            await asyncio.sleep(CHECK_EVERY_S)

    def _hear(self, data: bytes) -> None:
        rx = self._dtls.rx_srtp
        if rx is None or is_rtcp(data):
            return
        packet = RtpPacket.parse(rx.unprotect(data))
        self.numbers.append(packet.sequence_number)
        self.heard.append((now(), self._decoder.decode(packet.payload)))


def loudness(pcm: FloatSamples) -> float:
    """RMS."""
    return float(np.sqrt(np.mean(np.square(pcm)))) if pcm.size else 0.0
