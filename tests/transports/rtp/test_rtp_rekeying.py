from __future__ import annotations

import pytest

from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.playout import PlayoutPacket
from rtc_server.media.rtp import RtpPacket
from rtc_server.transports.rtp.protection import PLAIN_RTP, Protection
from rtc_server.transports.rtp.session import REKEYING_S, RtpSession
from tests.transports.rtp.sinks import Sink
from tests.transports.rtp.test_rtp_session import srtp_pair, tone

PCMU = AudioFormat("PCMU", 0, 8000)


class Rig:
    def __init__(self, rx: Protection, tx: Protection) -> None:
        self.now = 10.0
        self.wire: list[bytes] = []
        self.session = RtpSession(99, "c", self.send, lambda: self.now)
        self.session.negotiated(PCMU)
        self.sink = Sink()
        self.session._agreed.receiver.jitter_buffer = self.sink  # type: ignore[assignment]
        self.session.start(rx, tx)

    def send(self, data: bytes) -> bool:
        self.wire.append(data)
        return True


def packet(number: int) -> bytes:
    return RtpPacket(0, number, number * 160, 77, bytes([number]) * 160).serialize()


def say(rig: Rig, slots: range) -> None:
    for slot in slots:
        media: PlayoutPacket = tone(slot)
        rig.session.send_audio(slot * 0.02, media)


def test_new_keys_in_mid_call_lose_nothing_of_either_stream() -> None:
    peer_tx, rx = srtp_pair()
    tx, peer_rx = srtp_pair()
    rig = Rig(rx, tx)
    say(rig, range(5))
    before = [RtpPacket.parse(peer_rx.unprotect(data)) for data in rig.wire]
    on_the_way = [peer_tx.protect(packet(number)) for number in range(5)]
    new_peer_tx, new_rx = srtp_pair()
    new_tx, new_peer_rx = srtp_pair()
    rig.session.start(new_rx, new_tx)
    assert all(rig.session.receive(data) for data in on_the_way)
    assert all(rig.session.receive(new_peer_tx.protect(packet(number))) for number in range(5, 10))
    assert [put.sequence_number for put in rig.sink.puts] == list(range(10))
    rig.wire.clear()
    say(rig, range(5, 10))
    after = [RtpPacket.parse(new_peer_rx.unprotect(data)) for data in rig.wire]
    numbers = [item.sequence_number - before[0].sequence_number for item in before + after]
    assert numbers == list(range(10))
    assert {item.ssrc for item in before + after} == {99}


def test_keys_of_before_are_worth_nothing_after_a_while() -> None:
    old_peer_tx, old_rx = srtp_pair()
    _, tx = srtp_pair()
    rig = Rig(old_rx, tx)
    _, new_rx = srtp_pair()
    rig.session.start(new_rx, tx)
    rig.now += REKEYING_S
    assert not rig.session.receive(old_peer_tx.protect(packet(1)))
    assert not rig.sink.puts


def test_same_keys_again_keep_their_window_against_copies() -> None:
    peer_tx, rx = srtp_pair()
    _, tx = srtp_pair()
    rig = Rig(rx, tx)
    data = peer_tx.protect(packet(1))
    assert rig.session.receive(data)
    rig.session.start(rx, tx)
    assert not rig.session.receive(data)


@pytest.mark.parametrize("data", [packet(3), packet(3) + bytes(10)])
def test_call_that_becomes_secure_takes_no_plain_packet_from_then_on(data: bytes) -> None:
    rig = Rig(PLAIN_RTP, PLAIN_RTP)
    assert rig.session.receive(packet(1))
    _, rx = srtp_pair()
    tx, _ = srtp_pair()
    rig.session.start(rx, tx)
    assert not rig.session.receive(data)
    say(rig, range(1))
    assert len(rig.wire[-1]) == 12 + 160 + 10  # the tag of AES_CM_128_HMAC_SHA1_80
