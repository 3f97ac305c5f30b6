from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtc_server.media import opuspacket, red
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.codecs import make_decoder
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.playout import PlayoutPacket
from rtc_server.media.rtcp import ReportBlock
from rtc_server.media.rtp import RtpPacket
from rtc_server.transports.rtp.sender import RtpSender
from tests.media.speech import speech

OPUS, RED, SSRC = 111, 63, 99
PLAIN = AudioFormat("opus", OPUS, 48_000)
COPIED = AudioFormat("opus", OPUS, 48_000, red_payload_type=RED)
TELEPHONE = AudioFormat("PCMU", 0, 8_000)


def tone(slot: int) -> PlayoutPacket:
    at = np.arange(480) + slot * 480
    return PlayoutPacket(slot * 960, (0.3 * np.sin(at * 2 * np.pi * 440 / 24_000)).astype(np.float32), False)


def silence(slot: int) -> PlayoutPacket:
    return PlayoutPacket(slot * 960, np.zeros(480, np.float32), True)


def sent(sender: RtpSender, media: list[PlayoutPacket]) -> list[RtpPacket]:
    packets = [sender.packet(item.timestamp / 48_000, item) for item in media]
    return [RtpPacket.parse(packet) for packet in packets if packet is not None]


def lost(share: float) -> ReportBlock:
    return ReportBlock(SSRC, round(share * 256), 1, 1, 0, 0, 0)


def steps(packets: list[RtpPacket]) -> list[int]:
    return np.diff([packet.timestamp for packet in packets]).tolist()


@pytest.mark.parametrize(("audio", "units"), [(PLAIN, 960), (COPIED, 960), (TELEPHONE, 160)])
def test_every_slot_has_one_packet_on_the_codecs_clock(audio: AudioFormat, units: int) -> None:
    packets = sent(RtpSender(SSRC, audio), [tone(slot) for slot in range(50)])
    assert [packet.timestamp for packet in packets] == [slot * units for slot in range(50)]
    assert {(packet.sequence_number - packets[0].sequence_number) & 0xFFFF for packet in packets} == set(range(50))
    assert [packet.marker for packet in packets] == [True] + [False] * 49
    assert {packet.ssrc for packet in packets} == {SSRC}


@pytest.mark.parametrize("codec", ["PCMU", "PCMA"])
def test_g711_packet_holds_160_bytes_that_decode_to_what_was_said(codec: str) -> None:
    audio = AudioFormat("PCMU" if codec == "PCMU" else "PCMA", 8, 8_000)
    packets = sent(RtpSender(SSRC, audio), [tone(slot) for slot in range(50)])
    assert {(packet.payload_type, len(packet.payload)) for packet in packets} == {(8, 160)}
    decoder = make_decoder(audio)
    heard = np.concatenate([decoder.decode(packet.payload) for packet in packets])
    assert np.argmax(np.abs(np.fft.rfft(heard[-12_000:]))) == pytest.approx(440 / 2, abs=1)


def test_timestamps_of_the_playout_are_told_on_the_streams_clock() -> None:
    assert RtpSender(SSRC, PLAIN).timestamp(2**32 + 960) == 960
    assert RtpSender(SSRC, TELEPHONE).timestamp(6 * 2**32 + 961) == 160


def test_slots_that_a_stall_has_missed_show_as_a_jump_with_a_marker() -> None:
    packets = sent(RtpSender(SSRC, PLAIN), [tone(0), tone(1), tone(9), tone(10)])
    assert steps(packets) == [960, 8 * 960, 960]
    assert [packet.marker for packet in packets] == [True, False, True, False]


# RED


def test_peer_with_red_gets_the_packet_before_from_the_first_packet_on() -> None:
    packets = sent(RtpSender(SSRC, COPIED), [tone(slot) for slot in range(10)])
    assert {packet.payload_type for packet in packets} == {RED}
    blocks = [red.unwrap(packet.payload) for packet in packets]
    assert {block.payload_type for packet in blocks for block in packet} == {OPUS}
    assert [len(packet) for packet in blocks] == [1] + [2] * 9
    for before, (_, copy) in zip(blocks, blocks[1:], strict=False):
        assert copy == red.Block(OPUS, 960, before[0].payload)


def test_heavy_loss_gets_two_copies_and_no_fec() -> None:
    sender = RtpSender(SSRC, COPIED)
    sent(sender, [tone(slot) for slot in range(5)])
    sender.reported(0.1, lost(0.2))
    packets = sent(sender, [tone(slot) for slot in range(5, 30)])
    blocks = [red.unwrap(packet.payload) for packet in packets]
    assert {tuple(block.timestamp_offset for block in packet) for packet in blocks} == {(0, 960, 1920)}
    assert not any(opuspacket.has_fec(packet[0].payload) for packet in blocks)


def test_nothing_from_before_a_jump_is_repeated_behind_it() -> None:
    packets = sent(RtpSender(SSRC, COPIED), [tone(0), tone(1), tone(9), tone(10)])
    assert [len(red.unwrap(packet.payload)) for packet in packets] == [1, 2, 1, 2]


def test_later_offer_may_end_and_begin_red() -> None:
    sender = RtpSender(SSRC, COPIED)
    first = sent(sender, [tone(slot) for slot in range(3)])
    sender.agree(replace(PLAIN, payload_type=96))
    second = sent(sender, [tone(slot) for slot in range(3, 6)])
    sender.agree(COPIED)
    third = sent(sender, [tone(slot) for slot in range(6, 9)])
    assert [packet.payload_type for packet in first + second + third] == [RED] * 3 + [96] * 3 + [RED] * 3
    assert steps(first + second + third) == [960] * 8
    for packet in third:
        assert all(block.timestamp_offset in (0, 960, 1920) for block in red.unwrap(packet.payload))


# Loss


def test_fec_and_bitrate_follow_the_loss_that_the_peer_reports() -> None:
    sender = RtpSender(SSRC, PLAIN)
    media = [PlayoutPacket(slot * 960, speech()[slot * 480 :][:480], False) for slot in range(300)]
    before = sent(sender, media[:100])
    sender.reported(2.0, lost(0.1))
    during = sent(sender, media[100:250])
    assert not any(opuspacket.has_fec(packet.payload) for packet in before)
    assert sum(opuspacket.has_fec(packet.payload) for packet in during) > 50


def test_path_that_seems_full_gets_much_less() -> None:
    sender = RtpSender(SSRC, PLAIN)
    media = [PlayoutPacket(slot * 960, speech()[slot * 480 :][:480], False) for slot in range(300)]
    before = sum(len(packet.payload) for packet in sent(sender, media))
    again = [item._replace(timestamp=item.timestamp + 300 * 960) for item in media]
    sender.reported(5.0, lost(0.4))
    sender.reported(6.0, lost(0.4))
    assert sum(len(packet.payload) for packet in sent(sender, again)) < 0.7 * before


def test_report_about_somebody_else_changes_nothing() -> None:
    sender = RtpSender(SSRC, COPIED)
    sender.reported(0.0, ReportBlock(5, 128, 1, 1, 0, 1, 1))
    assert sender.statistics.loss == 0.0 and sender.statistics.round_trip_s is None
    assert len(red.unwrap(sent(sender, [tone(slot) for slot in range(5)])[-1].payload)) == 2


# DTX


def test_without_dtx_silence_is_sent_like_everything() -> None:
    assert len(sent(RtpSender(SSRC, PLAIN), [silence(slot) for slot in range(100)])) == 100


@pytest.mark.parametrize("audio", [PLAIN, COPIED])
def test_dtx_sends_next_to_nothing_in_pauses_and_marks_the_packet_behind_one(audio: AudioFormat) -> None:
    media = [tone(slot) if slot < 50 or slot >= 250 else silence(slot) for slot in range(300)]
    packets = sent(RtpSender(SSRC, audio, dtx=True), media)
    in_pause = [packet for packet in packets if 80 * 960 <= packet.timestamp < 250 * 960]
    assert 5 <= len(in_pause) <= 20
    assert max(steps(packets)) <= 21 * 960  # 420 ms: libopus describes the noise in every 21st packet
    assert all(step % 960 == 0 for step in steps(packets))
    numbers = [(packet.sequence_number - packets[0].sequence_number) & 0xFFFF for packet in packets]
    assert numbers == list(range(len(packets)))
    jumped = [True] + [step != 960 for step in steps(packets)]
    assert [packet.marker for packet in packets] == jumped
    assert {packet.timestamp for packet in packets} >= {slot * 960 for slot in range(255, 300)}


def test_copies_do_not_reach_across_a_pause() -> None:
    media = [tone(slot) if slot < 50 or slot >= 100 else silence(slot) for slot in range(150)]
    for packet in sent(RtpSender(SSRC, COPIED, dtx=True), media):
        offsets = [block.timestamp_offset for block in red.unwrap(packet.payload)]
        assert offsets == ([0] if packet.marker else [0, 960])


def test_pause_is_agreed_silence_to_a_jitter_buffer_and_not_loss() -> None:
    media = [tone(slot) if slot < 50 or slot >= 150 else silence(slot) for slot in range(200)]
    receiver = JitterBuffer()
    at = {packet.timestamp: packet for packet in sent(RtpSender(SSRC, PLAIN, dtx=True), media)}
    for slot in range(200):
        if packet := at.get(slot * 960):
            receiver.put(slot * 0.02, packet.sequence_number, packet.timestamp, packet.payload, SSRC)
        if slot % 4 == 3:
            receiver.take(slot * 0.02 + 0.015)
    assert receiver.counters.lost_samples == 0
    assert receiver.counters.dtx_samples > 24_000
    assert receiver.counters.concealed_samples < 2_400


def test_g711_has_no_word_for_silence_and_sends_it() -> None:
    assert len(sent(RtpSender(SSRC, TELEPHONE, dtx=True), [silence(slot) for slot in range(100)])) == 100


# Reports


def test_nothing_is_reported_before_the_first_packet() -> None:
    assert RtpSender(SSRC, PLAIN).report(1.0, ()) is None


@pytest.mark.parametrize(("audio", "clock_hz"), [(PLAIN, 48_000), (TELEPHONE, 8_000)])
def test_report_tells_the_media_time_on_the_streams_clock(audio: AudioFormat, clock_hz: int) -> None:
    sender = RtpSender(SSRC, audio)
    packets = sent(sender, [tone(slot) for slot in range(50)])
    report = sender.report(0.98 + 0.015, ())
    assert report is not None
    assert report.rtp_timestamp == packets[-1].timestamp + int(0.015 * clock_hz)
    assert (report.packet_count, report.octet_count) == (50, sum(len(packet.payload) for packet in packets))


def test_media_time_goes_on_in_a_pause() -> None:
    sender = RtpSender(SSRC, PLAIN, dtx=True)
    sent(sender, [tone(slot) if slot < 50 else silence(slot) for slot in range(200)])
    report = sender.report(199 * 0.02, ())
    assert report is not None and report.rtp_timestamp == 199 * 960
