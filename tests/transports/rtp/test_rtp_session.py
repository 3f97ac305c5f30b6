from __future__ import annotations

import secrets

import numpy as np
import pytest
from prometheus_client import REGISTRY
from pylibsrtp import Policy, Session

from rtc_server.media import red, rtcp
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.opus import OpusDecoder
from rtc_server.media.playout import PlayoutPacket
from rtc_server.media.rtp import RtpPacket, is_rtcp
from rtc_server.transports.rtp.session import PACKETS_BURST, PACKETS_PER_S, RtpSession
from tests.transports.rtp.sinks import Put, Sink

OPUS, RED, TELEPHONE_EVENT, PEER_SSRC, OUR_SSRC = 111, 63, 126, 77, 99
PLAIN = AudioFormat("opus", OPUS, 48_000)
COPIED = AudioFormat("opus", OPUS, 48_000, red_payload_type=RED)


def srtp_pair() -> tuple[Session, Session]:
    """(sender's session, receiver's session) with one key."""
    key = secrets.token_bytes(30)
    return (
        Session(Policy(key=key, ssrc_type=Policy.SSRC_ANY_OUTBOUND)),
        Session(Policy(key=key, ssrc_type=Policy.SSRC_ANY_INBOUND)),
    )


class Rig:
    """A session of ours; the test plays the peer."""

    def __init__(self, audio: AudioFormat = PLAIN, dtx: bool = False) -> None:
        self.now = 50.0
        self.wire: list[bytes] = []
        self.session = RtpSession(OUR_SSRC, "cname", self.send, lambda: self.now, dtx)
        self.session.negotiated(audio)
        self.sink = Sink()
        self.session._agreed.receiver.jitter_buffer = self.sink  # type: ignore[assignment]
        self.peer_tx, rx = srtp_pair()
        tx, self.peer_rx = srtp_pair()
        self.session.start(rx, tx)

    def send(self, data: bytes) -> bool:
        self.wire.append(data)
        return True

    def receive(self, sequence_number: int, payload: bytes = b"opus", payload_type: int = OPUS) -> bool:
        packet = RtpPacket(payload_type, sequence_number & 0xFFFF, sequence_number * 960, PEER_SSRC, payload)
        return self.session.receive(self.peer_tx.protect(packet.serialize()))

    def receive_rtcp(self, *packets: rtcp.RtcpPacket) -> None:
        self.session.receive(self.peer_tx.protect_rtcp(rtcp.serialize(packets)))

    def sent_rtp(self) -> list[RtpPacket]:
        return [RtpPacket.parse(self.peer_rx.unprotect(data)) for data in self.wire if not is_rtcp(data)]

    def sent_rtcp(self) -> list[rtcp.RtcpPacket]:
        compounds = [self.peer_rx.unprotect_rtcp(data) for data in self.wire if is_rtcp(data)]
        return [packet for compound in compounds for packet in rtcp.parse(compound)]


def tone(slot: int) -> PlayoutPacket:
    at = np.arange(480) + slot * 480
    return PlayoutPacket(slot * 960, (0.3 * np.sin(at * 2 * np.pi * 440 / 24_000)).astype(np.float32), False)


def test_opus_payload_reaches_the_jitter_buffer_and_counts_as_audio() -> None:
    rig = Rig()
    assert rig.session.last_audio_s is None
    assert rig.receive(5, b"payload")
    assert rig.sink.puts == [Put(5, 5 * 960, b"payload")] and rig.sink.ssrcs == {PEER_SSRC}
    assert rig.session.last_audio_s == 50.0


def test_other_payload_types_and_empty_payloads_are_no_audio() -> None:
    rig = Rig()
    rig.receive(1, b"1234", TELEPHONE_EVENT)
    rig.receive(2, b"")
    assert not rig.sink.puts and rig.session.last_audio_s is None


@pytest.mark.parametrize("data", [b"\x80", b"\x80\x6f" + bytes(40), b"\x80\xc8" + bytes(40), b"\xbf" * 200])
def test_what_does_not_authenticate_is_dropped(data: bytes) -> None:
    rig = Rig()
    assert not rig.session.receive(data)
    assert not rig.sink.puts


def test_copy_of_a_packet_is_dropped_by_the_replay_window() -> None:
    rig = Rig()
    data = rig.peer_tx.protect(RtpPacket(OPUS, 1, 960, PEER_SSRC, b"opus").serialize())
    assert rig.session.receive(data)
    assert not rig.session.receive(data)
    assert len(rig.sink.puts) == 1


def test_malformed_rtp_and_rtcp_inside_good_srtp_are_dropped() -> None:
    rig = Rig()
    cut_off_padding = b"\xa0" + RtpPacket(OPUS, 1, 960, PEER_SSRC, b"\xff").serialize()[1:]
    rig.session.receive(rig.peer_tx.protect(cut_off_padding))
    rig.session.receive(rig.peer_tx.protect_rtcp(b"\x9f\xc9\x00\x01" + bytes(4)))
    assert not rig.sink.puts


def test_flood_of_packets_is_cut_to_its_limit() -> None:
    rig = Rig()
    for sequence_number in range(3000):
        rig.now += 0.001
        rig.receive(sequence_number)
    assert len(rig.sink.puts) <= PACKETS_BURST + 3 * PACKETS_PER_S + 1


def test_packets_go_out_with_one_timestamp_step_each_and_decode_to_what_was_said() -> None:
    rig = Rig()
    for slot in range(50):
        rig.session.send_audio(50.0 + slot * 0.02, tone(slot))
    packets = rig.sent_rtp()
    assert [packet.timestamp for packet in packets] == [slot * 960 for slot in range(50)]
    assert {(packet.sequence_number - packets[0].sequence_number) & 0xFFFF for packet in packets} == set(range(50))
    assert {(packet.payload_type, packet.ssrc) for packet in packets} == {(OPUS, OUR_SSRC)}
    assert [packet.marker for packet in packets] == [True] + [False] * 49
    decoder = OpusDecoder()
    heard = np.concatenate([decoder.decode(packet.payload) for packet in packets])
    spectrum = np.abs(np.fft.rfft(heard[-12_000:]))
    assert np.argmax(spectrum) == pytest.approx(440 / 2, abs=1)


def test_lateness_is_measured_against_the_slot_and_read_once() -> None:
    rig = Rig()
    rig.now = 50.003
    rig.session.send_audio(50.0, tone(0))
    rig.session.send_audio(50.002, tone(1))
    assert rig.session.take_worst_lateness_s() == pytest.approx(0.003)
    assert rig.session.take_worst_lateness_s() == 0.0


def test_about_once_a_second_a_sender_report_with_cname_and_what_we_heard_leaves() -> None:
    rig = Rig()
    for slot in range(500):
        rig.now = 50.0 + slot * 0.02
        if slot % 10:
            rig.receive(slot)
        rig.session.send_audio(rig.now, tone(slot))
        rig.session.report_when_due(rig.now)
    sent = rig.sent_rtcp()
    reports = [packet for packet in sent if isinstance(packet, rtcp.SenderReport)]
    descriptions = [packet for packet in sent if isinstance(packet, rtcp.SourceDescription)]
    assert 9 <= len(reports) <= 12
    assert descriptions[0].cnames == ((OUR_SSRC, "cname"),)
    (block,) = reports[-1].reports
    assert block.ssrc == PEER_SSRC
    assert block.loss == pytest.approx(0.1, abs=0.04)
    assert rig.session.loss == pytest.approx(block.loss, abs=1 / 256)
    assert reports[-1].packet_count == pytest.approx(500, abs=60)


def test_every_packet_is_in_the_metrics_within_a_second_and_at_the_end_at_once() -> None:
    def counted() -> tuple[float, float]:
        values = (REGISTRY.get_sample_value("rtc_packets_total", {"direction": way}) for way in ("in", "out"))
        came, left = (value or 0.0 for value in values)
        return came - before[0], left - before[1]

    before = (0.0, 0.0)
    before = counted()
    rig = Rig()
    rig.receive(1)
    rig.session.send_audio(50.0, tone(0))
    rig.session.report_when_due(50.0)
    assert counted() == (1, 1)
    rig.receive(2)
    rig.session.report_when_due(51.2)
    assert counted() == (2, 1)
    rig.session.send_audio(51.2, tone(1))
    rig.session.send_bye()
    assert counted() == (2, 2)


def test_listener_without_audio_of_ours_gets_receiver_reports() -> None:
    rig = Rig()
    rig.receive(1)
    rig.session.report_when_due(rig.now)
    assert isinstance(rig.sent_rtcp()[0], rtcp.ReceiverReport)


def test_round_trip_and_loss_follow_from_the_peers_reports() -> None:
    rig = Rig()
    rig.session.send_audio(50.0, tone(0))
    rig.session.report_when_due(50.0)
    (ours,) = [packet for packet in rig.sent_rtcp() if isinstance(packet, rtcp.SenderReport)]
    block = rtcp.ReportBlock(OUR_SSRC, 64, 1, 1, 0, ours.ntp >> 16 & 0xFFFFFFFF, int(0.5 * 65536))
    rig.now = 50.58
    rig.receive_rtcp(rtcp.ReceiverReport(PEER_SSRC, (block,)))
    assert rig.session.round_trip_s == pytest.approx(0.08, abs=0.001)


def test_fec_follows_the_loss_that_the_peer_reports_and_stays_on_for_a_while() -> None:
    rig = Rig()

    for loss_256, at_s in ((0, 50.0), (26, 51.0), (0, 60.0), (0, 61.5)):
        rig.now = at_s
        rig.receive_rtcp(rtcp.ReceiverReport(PEER_SSRC, (rtcp.ReportBlock(OUR_SSRC, loss_256, 1, 1, 0, 1, 1),)))
        for slot in range(4):
            rig.session.send_audio(at_s + slot * 0.02, tone(slot))
    speech_codec = [packet.payload[0] >> 3 < 16 for packet in rig.sent_rtp()]
    assert [speech_codec[k] for k in (3, 7, 11, 15)] == [False, True, True, False]


def test_report_about_somebody_else_changes_nothing() -> None:
    rig = Rig()
    rig.receive_rtcp(rtcp.ReceiverReport(PEER_SSRC, (rtcp.ReportBlock(5, 64, 1, 1, 0, 1, 1),)))
    assert rig.session.round_trip_s is None


def test_goodbye_of_the_peers_stream_does_not_end_the_call() -> None:
    rig = Rig()
    rig.receive(1)
    rig.receive_rtcp(rtcp.ReceiverReport(PEER_SSRC), rtcp.Bye((PEER_SSRC,)))
    assert rig.receive(2), "a sender that was stopped goes on with the same stream"
    assert len(rig.sink.puts) == 2


def test_goodbye_is_the_last_thing_that_leaves() -> None:
    rig = Rig()
    rig.session.send_audio(50.0, tone(0))
    rig.session.send_bye()
    rig.session.send_audio(50.02, tone(1))
    rig.session.report_when_due(99.0)
    rig.receive(1)
    assert rig.sent_rtcp()[-1] == rtcp.Bye((OUR_SSRC,))
    assert len(rig.wire) == 2 and not rig.sink.puts


@pytest.mark.parametrize("size", [1500, 1501, 2048])
def test_datagram_longer_than_srtp_takes_is_dropped_and_the_call_goes_on(size: int) -> None:
    rig = Rig()
    rig.session.receive(b"\x80" + bytes([OPUS]) + bytes(size - 2))
    rig.receive(1)
    assert len(rig.sink.puts) == 1


def test_copies_go_both_ways_where_they_were_agreed_on() -> None:
    rig = Rig(COPIED)
    opus = bytes([0x78, 0x83, 0x10])
    rig.receive(5, red.wrap(OPUS, opus + b"b", [(960, opus + b"a")]), RED)
    assert rig.sink.puts == [Put(5, 5 * 960, opus + b"b"), Put(4, 4 * 960, opus + b"a", True)]
    for slot in range(3):
        rig.session.send_audio(50.0 + slot * 0.02, tone(slot))
    assert [(packet.payload_type, len(red.unwrap(packet.payload))) for packet in rig.sent_rtp()] == [
        (RED, 1),
        (RED, 2),
        (RED, 2),
    ]


def test_malformed_copies_are_dropped_and_the_call_goes_on() -> None:
    rig = Rig(COPIED)
    assert not rig.receive(1, b"\xef\x0f\x00\x06\x6fshort", RED)
    assert not rig.sink.puts
    assert rig.receive(2) and len(rig.sink.puts) == 1


@pytest.mark.parametrize(("audio", "told"), [(PLAIN, 0.05), (COPIED, 0.0)])
def test_floor_of_the_loss_is_told_to_the_peer_and_to_nobody_else(audio: AudioFormat, told: float) -> None:
    rig = Rig(audio)
    for slot in range(100):
        rig.receive(slot)
    rig.session.report_when_due(rig.now)
    (report,) = [packet for packet in rig.sent_rtcp() if isinstance(packet, rtcp.ReceiverReport)]
    assert report.reports[0].loss == pytest.approx(told, abs=1 / 256)
    assert rig.session.loss == 0.0


def test_later_agreement_keeps_the_jitter_buffer_and_the_stream() -> None:
    rig = Rig(COPIED)
    buffer = rig.session.jitter_buffer
    rig.session.send_audio(50.0, tone(0))
    rig.session.negotiated(AudioFormat("opus", 96, 48_000))
    rig.session.send_audio(50.02, tone(1))
    first, second = rig.sent_rtp()
    assert rig.session.jitter_buffer is buffer
    assert (second.payload_type, second.timestamp, second.marker) == (96, 960, False)
    assert second.sequence_number == (first.sequence_number + 1) & 0xFFFF


def test_timestamps_told_to_the_session_are_those_on_the_wire() -> None:
    opus, telephone = Rig(), Rig(AudioFormat("PCMA", 8, 8_000))
    assert opus.session.timestamp(960_000) == 960_000
    assert telephone.session.timestamp(960_000) == 160_000
    telephone.session.send_audio(70.0, tone(1000))
    assert telephone.sent_rtp()[0].timestamp == 160_000


def test_in_pauses_with_dtx_no_packet_leaves_but_reports_do() -> None:
    rig = Rig(dtx=True)
    for slot in range(500):
        rig.now = 50.0 + slot * 0.02
        rig.session.send_audio(rig.now, PlayoutPacket(slot * 960, np.zeros(480, np.float32), True))
        rig.session.report_when_due(rig.now)
    assert len(rig.sent_rtp()) < 60
    reports = [packet for packet in rig.sent_rtcp() if isinstance(packet, rtcp.SenderReport)]
    assert 9 <= len(reports) <= 12
    for before, after in zip(reports, reports[1:], strict=False):
        elapsed_s = (after.ntp - before.ntp) / 2**32
        assert after.rtp_timestamp - before.rtp_timestamp == pytest.approx(elapsed_s * 48_000, abs=48)
