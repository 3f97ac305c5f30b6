"""Two legs of this server in one process, connected to each other: one keeps to ICE-lite, so the other one controls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from aiortc import RTCDataChannel, RTCDataChannelParameters

from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, FloatSamples
from rtc_server.transports.webrtc.peer import WebRtcLeg
from tests.transports.webrtc import offers
from tests.transports.webrtc.callers import Handler, House

TONE_HZ = 440.0


def fingerprint_of(home: House) -> str:
    found = home.transport._certificate.getFingerprints()
    return next(item.value for item in found if item.algorithm == "sha-256")


def offer_of_a_browser(with_certificate_of: House, setup: str, ufrag: str = "MUIb") -> str:
    """Opus and a data channel of somebody whose certificate is that of `with_certificate_of`."""
    lines = {
        "m=audio": "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "a=fingerprint:": f"a=fingerprint:sha-256 {fingerprint_of(with_certificate_of)}",
        "a=setup:": f"a=setup:{setup}",
        "a=ice-ufrag:": f"a=ice-ufrag:{ufrag}",
        "a=ice-pwd:": "a=ice-pwd:wqKr6jKDHmdIwrCW2oKlgOqe",
    }
    return offers.with_lines(offers.read("S01"), lines)


@dataclass
class Pair:
    lite: WebRtcLeg
    lite_handler: Handler
    full: WebRtcLeg
    full_handler: Handler
    lite_home: House
    full_home: House
    lite_is_client: bool

    @property
    def lite_setup(self) -> str:
        return "active" if self.lite_is_client else "passive"

    async def restart(self, ufrag: str) -> None:
        """New credentials on both sides, as two servers would agree on them."""
        offer = offer_of_a_browser(self.full_home, "actpass", ufrag)
        answer = await self.lite.renegotiate(offer)
        await self.full.renegotiate(answer)

    def open_channel(self) -> RTCDataChannel:
        """Legs never open one themselves: a client does."""
        sctp = self.full.connection._sctp
        assert sctp is not None
        channel = RTCDataChannel(sctp, RTCDataChannelParameters(label="events"))
        self.full._events.attach(channel)
        return channel


async def connect_pair(lite_home: House, full_home: House, lite_is_client: bool = False) -> Pair:
    """The lite side answers a browser, as ever; its answer is the lite offer that the full side gets."""
    lite_handler, full_handler = Handler(), Handler()
    setup = "passive" if lite_is_client else "active"
    lite, answer = await lite_home.transport.create(offer_of_a_browser(full_home, setup), lite_handler)
    full, _ = await full_home.transport.create(answer, full_handler)
    return Pair(lite, lite_handler, full, full_handler, lite_home, full_home, lite_is_client)


def tone(frame: int) -> FloatSamples:
    """The `frame`th 80 ms of a sine."""
    at = np.arange(FRAME_SAMPLES) + frame * FRAME_SAMPLES
    return (0.3 * np.sin(at * 2 * np.pi * TONE_HZ / SAMPLE_RATE)).astype(np.float32)


def loudest_hz(pcm: FloatSamples) -> float:
    return float(np.argmax(np.abs(np.fft.rfft(pcm * np.hanning(pcm.size))))) * SAMPLE_RATE / pcm.size
