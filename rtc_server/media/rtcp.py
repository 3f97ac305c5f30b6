"""RTCP: the packets, and the numbers that go into them: loss, jitter, round trip. RFC 3550 section 6, A.1, A.3, A.8."""

from __future__ import annotations

from rtc_server.media.rtcpcodec import (
    Bye,
    MalformedRtcp,
    ReceiverReport,
    ReportBlock,
    RtcpPacket,
    SenderReport,
    SourceDescription,
    parse,
    serialize,
)
from rtc_server.media.rtp import signed_difference

__all__ = [
    "Bye",
    "MalformedRtcp",
    "ReceiverReport",
    "ReceiverStatistics",
    "ReportBlock",
    "RtcpPacket",
    "SenderReport",
    "SenderStatistics",
    "SourceDescription",
    "parse",
    "serialize",
]

_NTP_EPOCH_S = 2_208_988_800
"""From 1900 to 1970."""

# RFC 3550 A.1: further steps of the sequence number count as a restart, once the next packet confirms it.
_MAX_DROPOUT = 3000
_MAX_MISORDER = 100


class ReceiverStatistics:
    """How well one source is heard. Bounded: a few numbers, whatever arrives.

    Args:
        clock_hz: rate of the source's RTP timestamps.
    """

    def __init__(self, clock_hz: int = 48_000) -> None:
        self.loss = 0.0
        """Share of the source's packets that were lost, 0..1, between the last two reports; never the floor."""
        self._clock_hz = clock_hz
        self._ssrc: int | None = None
        self._first = self._highest = 0
        self._received = 0
        self._expected_before = self._received_before = 0
        self._suspect: int | None = None
        self._transit: float | None = None
        self._jitter = 0.0
        self._last_sr = 0
        self._last_sr_at = 0.0

    def received(self, now: float, sequence_number: int, timestamp: int, ssrc: int) -> None:
        """Count a packet that arrived at `now`. Another SSRC begins anew."""
        if ssrc != self._ssrc:
            self._ssrc = ssrc
            self._restart(sequence_number)
        elif not self._follow(sequence_number):
            return
        self._received += 1
        # RFC 3550 A.8: the smoothed difference of transit times, gain 1/16
        transit = now * self._clock_hz - timestamp
        if self._transit is not None:
            # the time line wraps, or starts again; then the difference means nothing
            difference = abs(transit - self._transit)
            if difference < self._clock_hz:
                self._jitter += (difference - self._jitter) / 16
        self._transit = transit

    def received_other(self, sequence_number: int, ssrc: int) -> None:
        """Count a packet of the source that is no audio, such as a telephone event: its sequence number is one of the
        source's, its timestamp says nothing about the path (RFC 4733 section 2.2.1). Other sources are ignored."""
        if ssrc == self._ssrc and self._follow(sequence_number):
            self._received += 1

    def change_clock(self, clock_hz: int) -> None:
        """The source's timestamps count at another rate from the next packet on."""
        if clock_hz != self._clock_hz:
            self._jitter *= clock_hz / self._clock_hz
            self._clock_hz = clock_hz
            self._transit = None

    def sender_report(self, now: float, ssrc: int, ntp: int) -> None:
        """Note the source's report, so that the next one of ours lets it compute the round trip. Other sources are
        ignored."""
        if ssrc == self._ssrc:
            self._last_sr = ntp >> 16 & 0xFFFFFFFF
            self._last_sr_at = now

    def report(self, now: float, least_loss: float = 0.0) -> ReportBlock | None:
        """The block for our next report; None before the first packet.

        `least_loss` (0..1) is a floor for the loss that is told: browsers send in-band FEC only after a report of loss.
        """
        if self._ssrc is None:
            return None
        expected = self._highest - self._first + 1
        expected_since = expected - self._expected_before
        lost_since = expected_since - (self._received - self._received_before)
        self._expected_before, self._received_before = expected, self._received
        self.loss = max(0.0, lost_since / expected_since) if expected_since > 0 else 0.0
        delay = now - self._last_sr_at if self._last_sr else 0.0
        return ReportBlock(
            ssrc=self._ssrc,
            fraction_lost=min(255, int(256 * max(self.loss, least_loss))),
            packets_lost=max(-0x800000, min(0x7FFFFF, expected - self._received)),
            highest_sequence=self._highest & 0xFFFFFFFF,
            jitter=int(self._jitter) & 0xFFFFFFFF,
            last_sr=self._last_sr,
            delay_since_last_sr=max(0, min(0xFFFFFFFF, int(delay * 65536))),
        )

    def _restart(self, sequence_number: int) -> None:
        self._first = self._highest = sequence_number
        self._received = self._expected_before = self._received_before = 0
        self._suspect = self._transit = None
        self._jitter = 0.0
        self._last_sr = 0

    def _follow(self, sequence_number: int) -> bool:
        """RFC 3550 A.1 without the probation, which SRTP makes needless. False: not counted."""
        step = signed_difference(sequence_number, self._highest & 0xFFFF, 1 << 16)
        if -_MAX_MISORDER < step < _MAX_DROPOUT:
            self._highest = max(self._highest, self._highest + step)
            self._suspect = None
            return True
        if sequence_number == self._suspect:  # two in a row: the source has restarted
            self._restart(sequence_number)
            return True
        self._suspect = (sequence_number + 1) & 0xFFFF
        return False


class SenderStatistics:
    """What we have sent of one source, and what the peer's reports say about it.

    Args:
        ssrc: ours.
        unix_offset_s: what added to `now` gives Unix time. With 0 the reports carry a time since an unknown moment,
            which RFC 3550 section 6.4.1 allows, and on which the round trip does not depend.
    """

    def __init__(self, ssrc: int, unix_offset_s: float = 0.0) -> None:
        self.ssrc = ssrc
        self._unix_offset_s = unix_offset_s
        self.packets_sent = 0
        self.octets_sent = 0
        self.round_trip_s: float | None = None
        """From the peer's last report that named one of our sender reports."""
        self.loss = 0.0
        """Share of our packets that the peer lost, 0..1, in its last report."""

    def sent(self, payload_octets: int) -> None:
        self.packets_sent += 1
        self.octets_sent += payload_octets

    def report(self, now: float, rtp_timestamp: int) -> SenderReport:
        """`rtp_timestamp` is the media time that belongs to `now`."""
        return SenderReport(
            self.ssrc,
            self._ntp(now),
            rtp_timestamp & 0xFFFFFFFF,
            self.packets_sent & 0xFFFFFFFF,
            self.octets_sent & 0xFFFFFFFF,
        )

    def reported(self, now: float, block: ReportBlock) -> None:
        """Take in a report block of the peer; one about another source is ignored."""
        if block.ssrc != self.ssrc:
            return
        self.loss = block.loss
        if block.last_sr:
            # RFC 3550 section 6.4.1: arrival - LSR - DLSR, in 1/65536 s on a circle of 32 bits
            units = ((self._ntp(now) >> 16) - block.last_sr - block.delay_since_last_sr) & 0xFFFFFFFF
            if units < 0x80000000:
                self.round_trip_s = units / 65536

    def _ntp(self, now: float) -> int:
        return int((now + self._unix_offset_s + _NTP_EPOCH_S) * (1 << 32)) & 0xFFFFFFFFFFFFFFFF
