from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media import rtcp
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.codecs import make_encoder
from rtc_server.media.frames import FRAME_S, FloatSamples
from rtc_server.media.playout import PlayoutPacket
from rtc_server.media.rtp import RtpPacket
from rtc_server.transports.rtp.protection import PLAIN_RTP
from rtc_server.transports.rtp.receiver import RtpReceiver
from rtc_server.transports.rtp.sender import RtpSender
from rtc_server.transports.rtp.session import RtpSession

OPUS = AudioFormat("opus", 96, 48_000)
PCMU = AudioFormat("PCMU", 0, 8000)
PCMA = AudioFormat("PCMA", 8, 8000)
G722 = AudioFormat("G722", 9, 8000)
OURS, PEERS = 99, 77


def sine(first: int, count: int) -> FloatSamples:
    return (0.3 * np.sin((np.arange(count) + first) * 2 * np.pi * 440 / 24_000)).astype(np.float32)


def tone(slot: int) -> PlayoutPacket:
    return PlayoutPacket(slot * 960, sine(slot * 480, 480), False)


def sent(sender: RtpSender, slots: range) -> list[RtpPacket]:
    packets = [sender.packet(slot * 0.02, tone(slot)) for slot in slots]
    return [RtpPacket.parse(packet) for packet in packets if packet is not None]


@pytest.mark.parametrize(("before", "after"), [(PCMU, OPUS), (OPUS, PCMA), (PCMU, G722), (G722, OPUS)])
def test_our_stream_goes_on_in_another_codec_with_its_ssrc_numbers_and_time(
    before: AudioFormat, after: AudioFormat
) -> None:
    sender = RtpSender(OURS, before)
    packets = sent(sender, range(1000, 1010))
    sender.agree(after)
    later = sent(sender, range(1010, 1020))
    everything = packets + later
    assert {packet.ssrc for packet in everything} == {OURS}
    assert [packet.payload_type for packet in everything] == [before.payload_type] * 10 + [after.payload_type] * 10
    numbers = [(packet.sequence_number - packets[0].sequence_number) & 0xFFFF for packet in everything]
    assert numbers == list(range(20))
    assert later[0].timestamp - packets[-1].timestamp == before.clock_hz // 50
    assert np.diff([packet.timestamp for packet in later]).tolist() == [after.clock_hz // 50] * 9
    assert sender.timestamp(1015 * 960) == later[5].timestamp


def test_time_goes_on_through_changes_to_and_fro_with_a_pause_between() -> None:
    sender = RtpSender(OURS, PCMU)
    first = sent(sender, range(5))
    sender.agree(OPUS)
    second = sent(sender, range(5, 10))
    sender.agree(PCMU)
    third = sent(sender, range(60, 65))  # on hold for a second
    assert second[0].timestamp - first[-1].timestamp == 160
    assert third[0].timestamp - second[-1].timestamp == 960 + 50 * 160
    assert third[0].marker


def test_report_tells_the_media_time_on_the_new_clock() -> None:
    sender = RtpSender(OURS, PCMU)
    sent(sender, range(50))
    sender.agree(OPUS)
    last = sent(sender, range(50, 100))[-1]
    report = sender.report(99 * 0.02 + 0.5, ())
    assert report is not None
    assert report.rtp_timestamp == last.timestamp + 24_000


class Caller:
    """Sends a sine that goes on through every change."""

    def __init__(self, receiver: RtpReceiver, audio: AudioFormat) -> None:
        self.receiver = receiver
        self.slot = 0
        self.timestamp = 4_294_960_000
        self.change(audio)

    def change(self, audio: AudioFormat, timestamp: int | None = None) -> None:
        self.audio = audio
        self.encoder = make_encoder(audio)
        self.timestamp = self.timestamp if timestamp is None else timestamp

    def say(self, packets: int, ssrc: int = PEERS) -> list[FloatSamples]:
        """Packets of 20 ms, and the frames taken meanwhile."""
        frames = []
        for _ in range(packets):
            payload = self.encoder.encode(sine(self.slot * 480, 480))
            packet = RtpPacket(self.audio.payload_type, self.slot & 0xFFFF, self.timestamp & 0xFFFFFFFF, ssrc, payload)
            self.receiver.receive(100 + self.slot * 0.02, packet)
            self.timestamp += self.audio.clock_hz // 50
            self.slot += 1
            if self.slot % 4 == 0:
                frames.append(self.receiver.jitter_buffer.take(100 + self.slot * 0.02 - 0.015))
        return frames


@pytest.mark.parametrize(
    ("before", "after", "timestamp"),
    [
        *((PCMU, PCMA, None), (PCMU, OPUS, None), (OPUS, PCMU, None), (PCMU, G722, None), (G722, OPUS, None)),
        *((PCMU, OPUS, 17), (OPUS, G722, 5_000_000)),
    ],
)
def test_peer_changes_its_codec_and_nothing_of_what_it_says_is_missing(
    before: AudioFormat, after: AudioFormat, timestamp: int | None
) -> None:
    receiver = RtpReceiver(before)
    caller = Caller(receiver, before)
    caller.say(100)
    delay_ms = receiver.jitter_buffer.delay_ms
    receiver.agree(after)
    caller.say(3)  # on their way, or sent before the answer came
    caller.change(after, timestamp)
    frames = caller.say(97)
    counters = receiver.jitter_buffer.counters
    assert counters.lost_samples == 0
    assert counters.concealed_samples <= 480  # decoders differ in their delay
    assert receiver.jitter_buffer.delay_ms < delay_ms + 25
    levels = [float(np.sqrt(np.mean(np.square(frame)))) for frame in frames]
    assert min(levels) > 0.8 * 0.3 / np.sqrt(2)
    assert max(levels) < 1.2 * 0.3 / np.sqrt(2)
    step = max(np.abs(np.diff(np.concatenate(frames))))
    assert step < (0.2 if after is OPUS else 0.1)  # no click but the onset that an Opus encoder begins with


def test_packets_of_the_codec_before_are_nothing_once_the_new_one_has_begun() -> None:
    receiver = RtpReceiver(PCMU)
    caller = Caller(receiver, PCMU)
    caller.say(10)
    receiver.agree(OPUS)
    caller.change(OPUS)
    caller.say(10)
    packets = receiver.jitter_buffer.counters.packets
    caller.change(PCMU)
    caller.say(10)
    assert receiver.jitter_buffer.counters.packets == packets


def test_codec_that_is_withdrawn_before_it_was_used_changes_nothing() -> None:
    receiver = RtpReceiver(PCMU)
    caller = Caller(receiver, PCMU)
    caller.say(10)
    receiver.agree(OPUS)
    receiver.agree(PCMU)
    caller.say(10)
    caller.change(OPUS)
    caller.say(10)
    assert receiver.jitter_buffer.counters.packets == 20


def test_change_of_codec_and_source_at_once_is_heard() -> None:
    receiver = RtpReceiver(PCMU)
    caller = Caller(receiver, PCMU)
    caller.say(50)
    receiver.agree(OPUS)
    caller.change(OPUS, 123)
    frames = caller.say(50, ssrc=PEERS + 1)
    assert min(float(np.abs(frame).max()) for frame in frames[1:]) > 0.2


def test_jitter_of_an_even_stream_stays_nothing_when_its_clock_changes() -> None:
    receiver = RtpReceiver(PCMU)
    caller = Caller(receiver, PCMU)
    caller.say(50)
    receiver.agree(OPUS)
    caller.change(OPUS)
    caller.say(50)
    block = receiver.report(102.0)
    assert block is not None and (block.packets_lost, block.highest_sequence) == (0, 99)
    assert block.jitter / 48 < 0.1, "ms"


class Rig:
    def __init__(self, audio: AudioFormat, ptime_ms: int = 20) -> None:
        self.now = 50.0
        self.rtp: list[RtpPacket] = []
        self.rtcp: list[rtcp.RtcpPacket] = []
        self.session = RtpSession(OURS, "c", self.on_rtp, lambda: self.now, send_rtcp=self.on_rtcp)
        self.session.negotiated(audio, ptime_ms=ptime_ms)
        self.session.start(PLAIN_RTP, PLAIN_RTP)

    def on_rtp(self, data: bytes) -> bool:
        self.rtp.append(RtpPacket.parse(data))
        return True

    def on_rtcp(self, data: bytes) -> bool:
        self.rtcp += rtcp.parse(data)
        return True

    def say(self, slots: range) -> None:
        for slot in slots:
            self.now = 50.0 + slot * 0.02
            self.session.send_audio(self.now, tone(slot))
            self.session.report_when_due(self.now)


@pytest.mark.parametrize("audio", [PCMU, G722, OPUS])
def test_peer_that_takes_10_ms_at_most_gets_two_packets_a_slot(audio: AudioFormat) -> None:
    rig = Rig(audio, ptime_ms=10)
    rig.say(range(20))
    assert len(rig.rtp) == 40
    assert np.diff([packet.timestamp for packet in rig.rtp]).tolist() == [audio.clock_hz // 100] * 39
    assert [packet.marker for packet in rig.rtp] == [True] + [False] * 39
    if audio is not OPUS:
        twenty = Rig(audio)
        twenty.say(range(20))
        assert b"".join(p.payload for p in rig.rtp) == b"".join(p.payload for p in twenty.rtp)
    rig.session.negotiated(audio, ptime_ms=20)
    rig.say(range(20, 21))
    assert len(rig.rtp) == 41


def test_rtcp_has_a_path_of_its_own_where_it_was_given_one() -> None:
    rig = Rig(PCMU)
    rig.say(range(100))
    rig.session.send_bye()
    assert len(rig.rtp) == 100
    assert isinstance(rig.rtcp[-1], rtcp.Bye)


def test_which_port_a_datagram_came_on_says_what_it_is() -> None:
    rig = Rig(AudioFormat("PCMU", 72, 8000))
    marked = RtpPacket(72, 1, 160, PEERS, bytes(160), marker=True).serialize()
    assert not rig.session.receive(marked)  # reads as RTCP of type 200
    assert rig.session.receive(marked, rtcp=False)
    assert not rig.session.receive(marked, rtcp=True)
    assert rig.session.jitter_buffer.counters.packets == 1


def test_frames_keep_their_pace_through_a_change_of_codec() -> None:
    receiver = RtpReceiver(PCMU)
    caller = Caller(receiver, PCMU)
    frames = caller.say(40)
    receiver.agree(OPUS)
    caller.change(OPUS)
    frames += caller.say(40)
    assert len(frames) * FRAME_S == pytest.approx(80 * 0.02)
    assert {frame.size for frame in frames} == {1920}
