from __future__ import annotations

import contextlib

import pytest
from aiortc import rtp as aiortc_rtp
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media import rtcp
from rtc_server.media.rtcp import (
    Bye,
    MalformedRtcp,
    ReceiverReport,
    ReceiverStatistics,
    ReportBlock,
    SenderReport,
    SenderStatistics,
    SourceDescription,
)

BLOCK = ReportBlock(0x11223344, 26, -3, 0x10005, 99, 0xAABBCCDD, 65_536)
REPORT = SenderReport(1, 0x83AA7E80_80000000, 4_000_000_000, 10, 1000, (BLOCK,))
COMPOUND = [REPORT, SourceDescription(((1, "agent@rtc"), (2, "x"))), Bye((1, 2), "over")]


def test_compound_packet_is_read_back() -> None:
    assert rtcp.parse(rtcp.serialize(COMPOUND)) == COMPOUND
    receiver = [ReceiverReport(9, (BLOCK, BLOCK)), SourceDescription(((9, "abc"),)), Bye((9,))]
    assert rtcp.parse(rtcp.serialize(receiver)) == receiver


@pytest.mark.parametrize("cname", ["a", "ab", "abc", "agent@rtc"])
def test_aiortc_reads_what_we_write(cname: str) -> None:
    compound = [REPORT, SourceDescription(((1, cname),)), Bye((1, 2), "over")]
    report, description, bye = aiortc_rtp.RtcpPacket.parse(rtcp.serialize(compound))
    assert isinstance(report, aiortc_rtp.RtcpSrPacket)
    assert report.sender_info.ntp_timestamp == REPORT.ntp
    assert report.sender_info.rtp_timestamp == REPORT.rtp_timestamp
    assert (report.sender_info.packet_count, report.sender_info.octet_count) == (10, 1000)
    (block,) = report.reports
    assert (block.ssrc, block.fraction_lost, block.packets_lost) == (BLOCK.ssrc, 26, -3)
    assert (block.highest_sequence, block.jitter, block.lsr, block.dlsr) == (0x10005, 99, 0xAABBCCDD, 65_536)
    assert isinstance(description, aiortc_rtp.RtcpSdesPacket)
    (chunk,) = description.chunks
    assert (chunk.ssrc, chunk.items[0]) == (1, (1, cname.encode()))
    assert isinstance(bye, aiortc_rtp.RtcpByePacket)
    assert bye.sources == [1, 2]


def test_we_read_what_aiortc_writes() -> None:
    block = aiortc_rtp.RtcpReceiverInfo(
        ssrc=5, fraction_lost=1, packets_lost=-2, highest_sequence=3, jitter=4, lsr=5, dlsr=6
    )
    source = aiortc_rtp.RtcpSourceInfo(ssrc=8, items=[(1, b"{some-name}")])
    feedback = aiortc_rtp.RtcpPsfbPacket(fmt=1, ssrc=8, media_ssrc=5)
    data = b"".join(
        bytes(packet)
        for packet in (
            aiortc_rtp.RtcpRrPacket(ssrc=8, reports=[block]),
            aiortc_rtp.RtcpSdesPacket(chunks=[source]),
            feedback,
            aiortc_rtp.RtcpByePacket(sources=[8]),
        )
    )
    assert rtcp.parse(data) == [
        ReceiverReport(8, (ReportBlock(5, 1, -2, 3, 4, 5, 6),)),
        SourceDescription(((8, "{some-name}"),)),
        Bye((8,)),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\x40\xc8\x00\x00",
        b"\x81\xc9\x00\x01\x00\x00\x00\x01",
        b"\x80\xc9\x00\x07\x00",
        b"\xa0\xc9\x00\x00",
    ],
)
def test_malformed_compounds_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedRtcp):
        rtcp.parse(data)


@settings(max_examples=150)
@given(st.integers(0, 31), st.sampled_from([200, 201, 202, 203, 204, 205]), st.binary(max_size=60))
def test_any_bytes_are_rtcp_or_malformed(count: int, kind: int, body: bytes) -> None:
    body = body[: len(body) // 4 * 4]
    for data in (body, bytes([0x80 | count, kind, 0, len(body) // 4]) + body, rtcp.serialize(COMPOUND) + body):
        with contextlib.suppress(MalformedRtcp):
            rtcp.parse(data)


def send(
    statistics: ReceiverStatistics, numbers: list[int], start: float = 0.0, jitter: list[float] | None = None
) -> None:
    for k, number in enumerate(numbers):
        late = jitter[k % len(jitter)] if jitter else 0.0
        statistics.received(start + number * 0.02 + late, number & 0xFFFF, number * 960 & 0xFFFFFFFF, 7)


def jitter_ms(statistics: ReceiverStatistics) -> float:
    report = statistics.report(0.0)
    assert report is not None
    return report.jitter / 48


def test_loss_is_counted_as_in_rfc_3550_a3() -> None:
    statistics = ReceiverStatistics()
    assert statistics.report(0.0) is None
    send(statistics, [n for n in range(65_500, 65_600) if n % 10])
    first = statistics.report(3.0)
    assert first is not None
    assert first.fraction_lost == pytest.approx(256 * 10 / 100, abs=3)
    assert first.packets_lost == 9 or first.packets_lost == 10
    assert first.highest_sequence == 65_599
    send(statistics, list(range(65_600, 65_700)))
    second = statistics.report(5.0)
    assert second is not None
    assert second.fraction_lost == 0
    assert second.packets_lost == first.packets_lost


def test_duplicates_count_against_loss() -> None:
    statistics = ReceiverStatistics()
    send(statistics, [0, 1, 2, 3, 3, 3])
    report = statistics.report(1.0)
    assert report is not None
    assert (report.fraction_lost, report.packets_lost) == (0, -2)


def test_packets_of_the_source_that_are_no_audio_are_no_loss_and_no_jitter() -> None:
    statistics = ReceiverStatistics()
    statistics.received_other(65_534, 7)
    assert statistics.report(0.0) is None, "no source yet"
    send(statistics, [65_534, 65_535])
    for number in (0, 1, 2):
        statistics.received_other(number, 7)
    statistics.received_other(3, 8)
    send(statistics, [65_540, 65_541])
    report = statistics.report(1.0)
    assert report is not None
    assert (report.packets_lost, report.highest_sequence) == (1, 65_541), "3 was another source's"
    assert report.jitter == 0


def test_least_loss_is_told_where_there_is_none() -> None:
    statistics = ReceiverStatistics()
    send(statistics, [0, 1, 2, 3])
    report = statistics.report(1.0, least_loss=0.05)
    assert report is not None
    assert report.loss == pytest.approx(0.05, abs=0.004)
    assert report.packets_lost == 0
    assert statistics.loss == 0.0, "what we know ourselves is the truth"


def test_jitter_converges_to_the_mean_difference_of_transit() -> None:
    statistics = ReceiverStatistics()
    send(statistics, list(range(1000)), jitter=[0.0, 0.01])
    assert jitter_ms(statistics) == pytest.approx(10, rel=0.05)
    smooth = ReceiverStatistics()
    send(smooth, list(range(1000)))
    assert jitter_ms(smooth) == 0


def test_restarted_source_begins_anew_once_it_is_confirmed() -> None:
    statistics = ReceiverStatistics()
    send(statistics, list(range(100)))
    statistics.received(2.1, 30_000, 0, 7)
    before = statistics.report(2.1)
    assert before is not None and (before.packets_lost, before.highest_sequence) == (0, 99)
    statistics.received(2.12, 30_001, 960, 7)
    statistics.received(2.14, 30_002, 1920, 7)
    report = statistics.report(3.0)
    assert report is not None
    assert report.highest_sequence == 30_002
    assert report.packets_lost == 0


def test_round_trip_is_found_from_the_peers_report() -> None:
    ours, theirs = SenderStatistics(7, unix_offset_s=1.7e9), ReceiverStatistics()
    ours.sent(80)
    report = ours.report(10.0, 5 * 960)
    assert (report.packet_count, report.octet_count, report.ssrc) == (1, 80, 7)
    theirs.received(77.03, 1, 960, 7)
    theirs.sender_report(77.03, 7, report.ntp)  # 30 ms on the way, on another clock
    theirs.sender_report(77.05, 8, report.ntp >> 1)  # of the peer's other source
    block = theirs.report(77.53)
    assert block is not None
    ours.reported(10.57, block)  # 40 ms back
    assert ours.round_trip_s == pytest.approx(0.07, abs=0.001)
    assert ours.loss == 0


def test_reports_about_others_are_ignored() -> None:
    ours = SenderStatistics(7)
    ours.reported(1.0, BLOCK)
    assert ours.round_trip_s is None
    assert ours.loss == 0
