"""RTP and RTCP of one call over its SRTP sessions (RFC 3550, 3551, 7587): packets in, packets out, reports both ways.

Everything happens in the callback that brings the datagram, or in the pacer's slot; nothing waits and nothing queues.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import pylibsrtp

from rtc_server import metrics
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.opus import OpusEncoder
from rtc_server.media.playout import PlayoutPacket
from rtc_server.media.rtcp import (
    Bye,
    MalformedRtcp,
    ReceiverReport,
    ReceiverStatistics,
    SenderReport,
    SenderStatistics,
    SourceDescription,
    parse,
    serialize,
)
from rtc_server.media.rtp import MalformedRtp, RtpPacket, is_rtcp, write_packet
from rtc_server.transports.webrtc.ratelimit import RateLimit

if TYPE_CHECKING:
    from pylibsrtp import Session

RTP_CLOCK_HZ = 48_000
REPORT_EVERY_S = 1.0
PACKETS_PER_S = 250.0
PACKETS_BURST = 500.0
"""What a peer may send: packets of 10 ms, their double, and what a stalled network lets go at once."""
LOSS_THAT_COUNTS = 0.01
LEAST_EXPECTED_LOSS_PCT = 5
MOST_EXPECTED_LOSS_PCT = 40
LOSS_MEMORY_S = 10.0
"""FEC stays on for so long after the last report of loss: lossy paths have quiet seconds too."""

_PACKETS_IN = metrics.PACKETS.labels("in")
_PACKETS_OUT = metrics.PACKETS.labels("out")


class RtpSession:
    """One audio stream each way.

    Args:
        ssrc, cname: ours, as in the answer.
        send: puts a datagram on the selected path.
        clock: monotonic seconds.
    """

    def __init__(self, ssrc: int, cname: str, send: Callable[[bytes], bool], clock: Callable[[], float]) -> None:
        self.ssrc = ssrc
        self.jitter_buffer = JitterBuffer()
        """Holds what the peer says; of the codec that the first `negotiated` names."""
        self.format: AudioFormat | None = None
        self.last_audio_s: float | None = None
        self.round_trip_s: float | None = None
        self.loss = 0.0
        """Share of the peer's packets that were lost, in the last report that we sent."""
        self._cname = cname
        self._send_datagram = send
        self._clock = clock
        self._rx: Session | None = None
        self._tx: Session | None = None
        self._encoder = OpusEncoder()
        self._sequence = secrets.randbits(15)
        self._last_sent: tuple[float, int] | None = None
        self._next_report_s = 0.0
        self._sender = SenderStatistics(ssrc)
        self._receiver = ReceiverStatistics(RTP_CLOCK_HZ)
        self._packets = RateLimit(PACKETS_PER_S, PACKETS_BURST)
        self._worst_lateness_s = 0.0
        self._lossy_until_s = 0.0

    def negotiated(self, audio: AudioFormat) -> None:
        """Offer and answer agreed on this; a later one of the call keeps the codec."""
        self.format = audio
        self._encoder.set_bitrate(audio.max_bitrate_bps)

    def start(self, rx: Session, tx: Session) -> None:
        """Keys are there: from now on packets go both ways."""
        self._rx, self._tx = rx, tx

    def take_worst_lateness_s(self) -> float:
        """Of packets sent since the last call."""
        worst, self._worst_lateness_s = self._worst_lateness_s, 0.0
        return worst

    # ---- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """One SRTP or SRTCP datagram. What cannot be used is counted and dropped."""
        now = self._clock()
        if self._rx is None or not self._packets.allow(now):
            return _drop("rtp_flood" if self._rx is not None else "early_srtp")
        try:
            if is_rtcp(data):
                return self._receive_rtcp(now, self._rx.unprotect_rtcp(data))
            return self._receive_rtp(now, self._rx.unprotect(data))
        except (MalformedRtp, MalformedRtcp):
            return _drop("bad_rtp")
        except (pylibsrtp.Error, ValueError):  # ValueError: longer than libsrtp takes, before anything is authenticated
            return _drop("bad_srtp")

    def _receive_rtp(self, now: float, data: bytes) -> None:
        packet = RtpPacket.parse(data)
        if self.format is None or packet.payload_type != self.format.payload_type:
            return  # comfort noise, telephone events: nothing that was agreed on
        _PACKETS_IN.inc()
        self._receiver.received(now, packet.sequence_number, packet.timestamp, packet.ssrc)
        if packet.payload:
            self.last_audio_s = now
            self.jitter_buffer.put(now, packet.sequence_number, packet.timestamp, packet.payload, packet.ssrc)

    def _receive_rtcp(self, now: float, data: bytes) -> None:
        for packet in parse(data):
            if isinstance(packet, SenderReport):
                self._receiver.sender_report(now, packet.ntp)
            if isinstance(packet, SenderReport | ReceiverReport):
                for block in packet.reports:
                    self._sender.reported(now, block)
                    if block.ssrc == self.ssrc:
                        self._follow_report(now, block.loss)

    def _follow_report(self, now: float, loss: float) -> None:
        self.round_trip_s = self._sender.round_trip_s
        if loss >= LOSS_THAT_COUNTS:
            self._lossy_until_s = now + LOSS_MEMORY_S
            percent = max(LEAST_EXPECTED_LOSS_PCT, min(MOST_EXPECTED_LOSS_PCT, round(100 * loss)))
            self._encoder.set_expected_loss(percent)
        elif now >= self._lossy_until_s:
            self._encoder.set_expected_loss(0)

    # ---- sending -----------------------------------------------------------------------------------------------------

    def send_audio(self, slot_s: float, packet: PlayoutPacket) -> None:
        """Encode, protect and send 20 ms that were due at `slot_s`."""
        if self._tx is None or self.format is None:
            return
        payload = self._encoder.encode(packet.pcm)
        first = self._last_sent is None
        data = write_packet(
            self.format.payload_type, self._sequence, packet.timestamp, self.ssrc, payload, marker=first
        )
        self._sequence = (self._sequence + 1) & 0xFFFF
        self._send_datagram(self._tx.protect(data))
        self._sender.sent(len(payload))
        self._last_sent = (slot_s, packet.timestamp)
        lateness_s = self._clock() - slot_s
        self._worst_lateness_s = max(self._worst_lateness_s, lateness_s)
        metrics.PACKET_LATENESS_SECONDS.observe(lateness_s)
        _PACKETS_OUT.inc()

    def report_when_due(self, now: float) -> None:
        """About once a second: what we sent, how we hear the peer."""
        if now < self._next_report_s or self._tx is None:
            return
        self._next_report_s = now + REPORT_EVERY_S * (0.9 + 0.2 * secrets.randbelow(1000) / 1000)
        self._send_rtcp(now)

    def send_bye(self) -> None:
        """RFC 3550 section 6.6: the stream ends."""
        if self._tx is not None:
            self._send_rtcp(self._clock(), Bye((self.ssrc,)))
            self._rx = self._tx = None

    def _send_rtcp(self, now: float, *more: Bye) -> None:
        assert self._tx is not None
        heard = self._receiver.report(now)
        reports = () if heard is None else (heard,)
        if heard is not None:
            self.loss = heard.loss
        head: SenderReport | ReceiverReport = ReceiverReport(self.ssrc, reports)
        if self._last_sent is not None:
            slot_s, timestamp = self._last_sent
            media_time = timestamp + int((now - slot_s) * RTP_CLOCK_HZ)
            head = dataclasses.replace(self._sender.report(now, media_time), reports=reports)
        compound = serialize([head, SourceDescription(((self.ssrc, self._cname),)), *more])
        self._send_datagram(self._tx.protect_rtcp(compound))


def _drop(reason: str) -> None:
    metrics.DATAGRAMS_DROPPED.labels(reason).inc()
