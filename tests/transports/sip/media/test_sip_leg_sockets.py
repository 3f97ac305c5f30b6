"""Two legs that call each other over real sockets; their slots are served without waiting for the clock."""

from __future__ import annotations

import asyncio
import secrets

import numpy as np
import pytest

from rtc_server.events import Numbered
from rtc_server.media.audioformat import AudioFormat
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.sip.media.leg import SipLeg
from rtc_server.transports.sip.media.rtpport import RtpPort, RtpPorts
from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia
from rtc_server.transports.sip.negotiation.sdes import SrtpKeys, new_key
from tests.transports.sip.media.phones import DIGITS, Handler, level, sine
from tests.transports.sip.media.test_rtpport import HOST, free_range

PCMU = AudioFormat("PCMU", 0, 8000)
G722 = AudioFormat("G722", 9, 8000)
OPUS = AudioFormat("opus", 96, 48_000)


class Clock:
    now = 500.0

    def __call__(self) -> float:
        return self.now


def ignore(event: Numbered) -> None: ...


def leg_on(port: RtpPort, clock: Clock, closed: list[str]) -> SipLeg:
    leg = SipLeg(port, Pacer(clock), clock, on_event=ignore, on_close=closed.append)
    leg.handler = Handler()
    return leg


def agreed(peer: RtpPort, audio: AudioFormat, keys: SrtpKeys | None) -> AgreedMedia:
    local = peer.local
    return AgreedMedia(
        audio=audio,
        remote_rtp=(local.address, local.rtp_port),
        remote_rtcp=(local.address, local.rtcp_port),
        telephone_event=DIGITS,
        direction="sendrecv",
        srtp=keys,
    )


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("audio", [PCMU, G722, OPUS])
async def test_two_legs_hear_each_other(audio: AudioFormat, secure: bool) -> None:
    clock, closed = Clock(), list[str]()
    first = free_range(2)
    ports = RtpPorts(first, first + 3)
    port_a, port_b = ports.acquire(HOST), ports.acquire(HOST)
    a, b = leg_on(port_a, clock, closed), leg_on(port_b, clock, closed)
    one, other = (new_key("AES_CM_128_HMAC_SHA1_80", secrets.token_bytes) for _ in range(2))
    a.agree(agreed(port_b, audio, SrtpKeys(one, other) if secure else None))
    b.agree(agreed(port_a, audio, SrtpKeys(other, one) if secure else None))
    heard: list[float] = []
    a.answer()
    b.answer()
    for slot in range(100):
        if slot % 4 == 0:
            heard.append(level(b.take(clock.now)))
            a.write(clock.now, sine(slot * 480, 1920))
        if slot == 80:
            a.send_digits("5")
        a.send_packet(clock.now)
        b.send_packet(clock.now)
        await asyncio.sleep(0.001)
        clock.now += 0.02
    assert np.median(heard[5:20]) == pytest.approx(0.3 / 2**0.5, rel=0.1)
    assert isinstance(b.handler, Handler) and b.handler.digits == ["5"]
    await a.close("hangup")
    await b.close("hangup")
    assert closed == ["hangup", "hangup"]
    assert ports.in_use == 0
