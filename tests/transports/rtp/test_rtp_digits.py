from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.playout import PlayoutPacket
from rtc_server.media.rtp import RtpPacket
from rtc_server.media.telephoneevent import SILENCE_ENDS_S, DigitReceiver, TelephoneEvent
from rtc_server.transports.rtp.protection import PLAIN_RTP
from rtc_server.transports.rtp.session import RtpSession
from tests.transports.rtp.sinks import Sink

PCMU = AudioFormat("PCMU", 0, 8000)
OPUS = AudioFormat("opus", 96, 48_000)


class Digits(NamedTuple):
    payload_type: int = 101
    clock_hz: int = 8000


AT_8000 = Digits()


class Rig:
    def __init__(self, audio: AudioFormat = PCMU, digits: Digits | None = AT_8000, ptime_ms: int = 20) -> None:
        self.now = 50.0
        self.slots = 0
        self.heard: list[str] = []
        self.wire: list[RtpPacket] = []
        self.session = RtpSession(99, "c", self.send, lambda: self.now, on_digit=self.heard.append)
        self.session.negotiated(audio, digits, ptime_ms)
        self.session.start(PLAIN_RTP, PLAIN_RTP)
        self.sink = Sink()
        self.session._agreed.receiver.jitter_buffer = self.sink  # type: ignore[assignment]

    def send(self, data: bytes) -> bool:
        if data[1] not in (200, 201):
            self.wire.append(RtpPacket.parse(data))
        return True

    def receive(self, number: int, event: TelephoneEvent, timestamp: int = 8000, payload_type: int = 101) -> None:
        packet = RtpPacket(payload_type, number, timestamp, 77, event.to_bytes())
        assert self.session.receive(packet.serialize())

    def pass_slots(self, count: int) -> None:
        for _ in range(count):
            media = PlayoutPacket(self.slots * 960, np.full(480, 0.1, np.float32), False)
            self.session.send_audio(self.now, media)
            self.session.report_when_due(self.now)
            self.slots += 1
            self.now += 0.02


def test_digit_of_the_peer_is_told_once_and_is_no_audio() -> None:
    rig = Rig()
    for number in range(5):
        rig.receive(number, TelephoneEvent(5, False, 160 * (number + 1)))
    for number in range(5, 8):
        rig.receive(number, TelephoneEvent(5, True, 960))
    assert rig.heard == ["5"]
    assert not rig.sink.puts
    assert rig.session.last_audio_s is None


def test_digit_whose_end_was_lost_is_told_when_it_is_clearly_over() -> None:
    rig = Rig()
    rig.receive(1, TelephoneEvent(11, False, 160))
    rig.pass_slots(int(SILENCE_ENDS_S / 0.02) - 1)
    assert not rig.heard
    rig.pass_slots(3)
    assert rig.heard == ["#"]


def test_events_of_another_payload_type_are_nothing() -> None:
    rig = Rig()
    rig.receive(1, TelephoneEvent(5, True, 960), payload_type=120)
    rig.session.negotiated(PCMU, Digits(120))
    rig.receive(2, TelephoneEvent(6, True, 960), payload_type=120)
    rig.session.negotiated(PCMU)
    rig.receive(3, TelephoneEvent(7, True, 960), timestamp=20_000, payload_type=120)
    assert rig.heard == ["6"]


@pytest.mark.parametrize("ptime_ms", [10, 20])
@pytest.mark.parametrize("audio", [PCMU, OPUS])
def test_digits_of_ours_take_the_place_of_audio_in_one_stream(audio: AudioFormat, ptime_ms: int) -> None:
    rig = Rig(audio, Digits(101, audio.clock_hz), ptime_ms)
    rig.pass_slots(10)
    rig.session.send_digits("1#")
    rig.pass_slots(30)
    numbers = [(packet.sequence_number - rig.wire[0].sequence_number) & 0xFFFF for packet in rig.wire]
    assert numbers == list(range(len(rig.wire)))
    events = [packet for packet in rig.wire if packet.payload_type == 101]
    receiver = DigitReceiver()
    heard = [receiver.receive(0.0, event.payload, event.timestamp) for event in events]
    assert [digit for digit in heard if digit] == ["1", "#"]
    assert events[0].timestamp == 10 * audio.clock_hz // 50
    assert [event.marker for event in events].count(True) == 2
    ends = [event for event in events if event.payload[1] & 0x80]
    assert len(ends) == 6


def test_audio_behind_a_digit_is_where_it_would_have_been_and_has_the_marker() -> None:
    rig = Rig()
    rig.pass_slots(5)
    rig.session.send_digits("9")
    rig.pass_slots(20)
    audio = [packet for packet in rig.wire if packet.payload_type == 0]
    gap = [later.timestamp - earlier.timestamp for earlier, later in zip(audio, audio[1:], strict=False)]
    assert sorted(set(gap)) == [160, 160 * 8]
    assert [packet.timestamp for packet in audio if packet.marker] == [0, 5 * 160 + 7 * 160]


def test_digits_wait_while_nothing_may_be_sent() -> None:
    rig = Rig()
    rig.session.send_digits("1")
    for _ in range(10):
        rig.session.report_when_due(rig.now)  # on hold: no audio is sent
        rig.now += 0.02
    rig.pass_slots(1)
    assert rig.wire[0].payload_type == 101


def test_digits_that_nobody_takes_are_refused() -> None:
    rig = Rig(digits=None)
    with pytest.raises(ValueError, match="telephone events"):
        rig.session.send_digits("1")
    with pytest.raises(ValueError, match="no key"):
        Rig().session.send_digits("1x")
