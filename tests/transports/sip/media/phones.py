"""A phone call's media in virtual time: our leg on ports that are none, and the phone at the other end."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from rtc_server.events import Numbered
from rtc_server.media import rtcp
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.codecs import make_encoder
from rtc_server.media.frames import FRAME_S, FloatSamples
from rtc_server.media.rtp import RtpPacket
from rtc_server.session.leg import FloatFrame
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.media.latch import FormerStream, Stream
from rtc_server.transports.sip.media.leg import SipLeg
from rtc_server.transports.sip.media.rtpport import RtpPort
from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia, LocalMedia, TelephoneEvent

BELIEVED_S = 4000.0
PHONE: Address = ("203.0.113.9", 20_000)
PHONE_RTCP: Address = ("203.0.113.9", 20_001)
PCMU = AudioFormat("PCMU", 0, 8000, comfort_noise_payload_type=13)
PCMA = AudioFormat("PCMA", 8, 8000)
OPUS = AudioFormat("opus", 111, 48_000)
DIGITS = TelephoneEvent(101, 8000)
PLAIN = AgreedMedia(
    audio=PCMU, remote_rtp=PHONE, remote_rtcp=PHONE_RTCP, telephone_event=None, direction="sendrecv", srtp=None
)
HELD = replace(PLAIN, direction="recvonly")
WITH_DIGITS = replace(PLAIN, telephone_event=DIGITS)


def sine(first: int, count: int) -> FloatSamples:
    return (0.3 * np.sin((np.arange(count) + first) * 2 * np.pi * 440 / 24_000)).astype(np.float32)


class Wire:
    """In the place of an `RtpPort`."""

    def __init__(self) -> None:
        self.local = LocalMedia("198.51.100.1", 30_000, 30_001)
        self.rtp: list[tuple[bytes, Address]] = []
        self.rtcp: list[tuple[bytes, Address]] = []
        self.closed = 0
        self.former: FormerStream | None = None
        self.heard: Stream | None = None

    def listen(self, on_rtp: object, on_rtcp: object) -> None: ...

    def send_rtp(self, datagram: bytes, destination: Address) -> bool:
        self.rtp.append((datagram, destination))
        return True

    def send_rtcp(self, datagram: bytes, destination: Address) -> bool:
        self.rtcp.append((datagram, destination))
        return True

    def close(self, heard: Stream | None = None) -> None:
        self.closed += 1
        self.heard = heard

    @property
    def packets(self) -> list[RtpPacket]:
        return [RtpPacket.parse(data) for data, _ in self.rtp]

    @property
    def destinations(self) -> set[Address]:
        return {destination for _, destination in self.rtp}

    @property
    def reports(self) -> list[rtcp.RtcpPacket]:
        return [packet for data, _ in self.rtcp for packet in rtcp.parse(data)]


class Handler:
    """What an attachment hears."""

    def __init__(self) -> None:
        self.digits: list[str] = []
        self.closed: list[str] = []

    def on_connected(self) -> None: ...

    def on_message(self, message: str | bytes) -> None: ...

    def on_digit(self, digit: str) -> None:
        self.digits.append(digit)

    def on_leg_closed(self, reason: str) -> None:
        self.closed.append(reason)


class Home:
    """One leg, answered unless the test does that, its session and its pacer."""

    def __init__(
        self, agreed: AgreedMedia | None = PLAIN, *, answered: bool = True, peer_host: str | None = None
    ) -> None:
        self.now = 1000.0
        self.wire = Wire()
        self.handler = Handler()
        self.events: list[Numbered] = []
        self.closed: list[str] = []
        self.pacer = Pacer(self.clock)
        self.leg = SipLeg(
            cast(RtpPort, self.wire),
            self.pacer,
            self.clock,
            believed_s=BELIEVED_S,
            on_event=self.events.append,
            on_close=self.closed.append,
        )
        self.leg.handler = self.handler
        self.frames: list[FloatFrame] = []
        self._frame_due_s = self.now + FRAME_S
        self._spoken = 0
        if agreed is not None:
            self.leg.agree(agreed, peer_host)
        if answered:
            self.leg.answer()

    def clock(self) -> float:
        return self.now

    def receive(self, datagram: bytes, source: Address = PHONE) -> None:
        self.leg._receive_rtp(datagram, source)

    def receive_rtcp(self, *packets: rtcp.RtcpPacket, source: Address = PHONE_RTCP) -> None:
        self.leg._receive_rtcp(rtcp.serialize(packets), source)

    def slot(self) -> None:
        """20 ms pass: our packet leaves, and each fourth time a frame is taken and one of the agent comes."""
        self.now += 0.02
        if self.now >= self._frame_due_s - 1e-6:
            self._frame_due_s += FRAME_S
            self.frames.append(self.leg.take(self.now))
            self.leg.write(self.now, sine(self._spoken, 1920))
            self._spoken += 1920
        self.leg.send_packet(self.now)

    def pass_slots(self, count: int) -> None:
        for _ in range(count):
            self.slot()


class Phone:
    """Sends a sine to a home, a packet a slot."""

    def __init__(self, home: Home, audio: AudioFormat = PCMU, source: Address = PHONE, ssrc: int = 77) -> None:
        self.home = home
        self.source = source
        self.ssrc = ssrc
        self.sequence_number = 65_500
        self.timestamp = 4_294_960_000
        self.change(audio)

    def change(self, audio: AudioFormat) -> None:
        self.audio = audio
        self._encoder = make_encoder(audio)
        self._said = 0

    def packet(self) -> bytes:
        payload = self._encoder.encode(sine(self._said, 480))
        self._said += 480
        packet = RtpPacket(
            self.audio.payload_type, self.sequence_number & 0xFFFF, self.timestamp & 0xFFFFFFFF, self.ssrc, payload
        )
        self.sequence_number += 1
        self.timestamp += self.audio.clock_hz // 50
        return packet.serialize()

    def say(self, slots: int) -> None:
        for _ in range(slots):
            self.home.receive(self.packet(), self.source)
            self.home.slot()

    def pause(self, slots: int) -> None:
        """As phones with silence suppression do: nothing is sent, but time passes."""
        self.timestamp += slots * self.audio.clock_hz // 50
        self.home.pass_slots(slots)


def level(frame: FloatFrame) -> float:
    return float(np.sqrt(np.mean(np.square(frame))))
