"""Two legs that call each other over real sockets; their slots are served without waiting for the clock."""

from __future__ import annotations

import asyncio
import secrets

import numpy as np
import pytest

from rtc_server.events import Numbered
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.rtp import RtpPacket
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.sip.media.leg import SipLeg
from rtc_server.transports.sip.media.rtpport import MIN_REST_S, RtpPort, RtpPorts
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
    leg = SipLeg(port, Pacer(clock), clock, believed_s=100.0, on_event=ignore, on_close=closed.append)
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


async def test_peer_of_the_call_before_that_still_sends_to_the_only_ports_does_not_hear_the_next_call() -> None:
    """The peer of the first call never learns of its end; the second one is behind a NAT, and late."""
    clock, closed = Clock(), list[str]()
    first = free_range(1)
    ports = RtpPorts(first, first + 1, clock=clock)
    far = AgreedMedia(
        audio=PCMU, remote_rtp=("10.0.0.9", 4000), remote_rtcp=None, telephone_event=None, direction="sendrecv",
        srtp=None,
    )  # fmt: skip
    heard = []
    for _ in range(2):
        port = ports.acquire(HOST)
        leg = leg_on(port, clock, closed)
        leg.agree(far, "198.51.100.1")
        leg.answer()
        for number in range(10):
            leg._receive_rtp(RtpPacket(0, number, number * 160, 7, bytes(160)).serialize(), ("198.51.100.66", 4711))
        heard.append(leg._latch.source)
        await leg.close("peer_gone")
        clock.now += MIN_REST_S
    assert heard == [("198.51.100.66", 4711), None]
