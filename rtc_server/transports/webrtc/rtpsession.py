"""RTP and RTCP of one call over its SRTP sessions (RFC 3550, 3711): a stream each way, and the reports about both.

Everything happens in the callback that brings the datagram, or in the pacer's slot; nothing waits and nothing queues.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pylibsrtp

from rtc_server import metrics
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.playout import PlayoutPacket
from rtc_server.media.red import MalformedRed
from rtc_server.media.rtcp import (
    Bye,
    MalformedRtcp,
    ReceiverReport,
    SenderReport,
    SourceDescription,
    parse,
    serialize,
)
from rtc_server.media.rtp import MalformedRtp, RtpPacket, is_rtcp
from rtc_server.transports.ratelimit import RateLimit
from rtc_server.transports.webrtc.rtpreceiver import RtpReceiver
from rtc_server.transports.webrtc.rtpsender import RtpSender

if TYPE_CHECKING:
    from pylibsrtp import Session

REPORT_EVERY_S = 1.0
PACKETS_PER_S = 250.0
PACKETS_BURST = 500.0
"""What a peer may send: packets of 10 ms, their double, and what a stalled network lets go at once."""

_PACKETS_IN = metrics.PACKETS.labels("in")
_PACKETS_OUT = metrics.PACKETS.labels("out")


class _Streams(NamedTuple):
    """Made for the codec, once one is agreed on."""

    receiver: RtpReceiver
    sender: RtpSender


class RtpSession:
    """One audio stream each way.

    Args:
        ssrc, cname: ours, as in the answer.
        send: puts a datagram on the selected path.
        clock: monotonic seconds.
        dtx: send nothing while the agent is silent, where the codec can.
    """

    def __init__(
        self, ssrc: int, cname: str, send: Callable[[bytes], bool], clock: Callable[[], float], dtx: bool = False
    ) -> None:
        self.ssrc = ssrc
        self.last_audio_s: float | None = None
        self._cname = cname
        self._send_datagram = send
        self._clock = clock
        self._dtx = dtx
        self._streams: _Streams | None = None
        self._rx: Session | None = None
        self._tx: Session | None = None
        self._next_report_s = 0.0
        self._packets = RateLimit(PACKETS_PER_S, PACKETS_BURST)
        self._worst_lateness_s = 0.0

    def negotiated(self, audio: AudioFormat) -> None:
        """Offer and answer agreed on this; a later one of the call keeps the codec."""
        if self._streams is None:
            self._streams = _Streams(RtpReceiver(audio), RtpSender(self.ssrc, audio, self._dtx))
        else:
            self._streams.receiver.agree(audio)
            self._streams.sender.agree(audio)

    @property
    def _agreed(self) -> _Streams:
        assert self._streams is not None, "nothing is negotiated yet"
        return self._streams

    @property
    def jitter_buffer(self) -> JitterBuffer:
        """Holds what the peer says; of the codec that the first `negotiated` names."""
        return self._agreed.receiver.jitter_buffer

    @property
    def loss(self) -> float:
        """Share of the peer's packets that were lost, up to the last report that we sent."""
        return self._agreed.receiver.statistics.loss

    @property
    def round_trip_s(self) -> float | None:
        return self._agreed.sender.statistics.round_trip_s

    def start(self, rx: Session, tx: Session) -> None:
        """Keys are there: from now on packets go both ways."""
        self._rx, self._tx = rx, tx

    def timestamp(self, playout_timestamp: int) -> int:
        """On the wire, of a time of the playout: 32 bits on the stream's own clock."""
        return self._agreed.sender.timestamp(playout_timestamp)

    def take_worst_lateness_s(self) -> float:
        """Of packets sent since the last call."""
        worst, self._worst_lateness_s = self._worst_lateness_s, 0.0
        return worst

    # ---- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> bool:
        """One SRTP or SRTCP datagram. What cannot be used is counted and dropped.

        Returns: True when the peer itself has sent it, just now: it authenticates and is no copy.
        """
        now = self._clock()
        if self._rx is None or not self._packets.allow(now):
            _drop("rtp_flood" if self._rx is not None else "early_srtp")
            return False
        try:
            if is_rtcp(data):
                self._receive_rtcp(now, self._rx.unprotect_rtcp(data))
            else:
                self._receive_rtp(now, self._rx.unprotect(data))
        except (MalformedRtp, MalformedRtcp, MalformedRed):
            _drop("bad_rtp")
            return False
        except (pylibsrtp.Error, ValueError):  # ValueError: longer than libsrtp takes, before anything is authenticated
            _drop("bad_srtp")
            return False
        return True

    def _receive_rtp(self, now: float, data: bytes) -> None:
        _PACKETS_IN.inc()
        if self._agreed.receiver.receive(now, RtpPacket.parse(data)):
            self.last_audio_s = now

    def _receive_rtcp(self, now: float, data: bytes) -> None:
        """A BYE changes nothing: it ends a source, not the call (RFC 3550 section 6.6). Peers send one as they stop a
        track, and may go on with another or only listen; who leaves closes DTLS."""
        receiver, sender = self._agreed
        for packet in parse(data):
            if isinstance(packet, SenderReport):
                receiver.statistics.sender_report(now, packet.ssrc, packet.ntp)
            if isinstance(packet, SenderReport | ReceiverReport):
                for block in packet.reports:
                    sender.reported(now, block)

    # ---- sending -----------------------------------------------------------------------------------------------------

    def send_audio(self, slot_s: float, media: PlayoutPacket) -> None:
        """Encode, protect and send 20 ms that were due at `slot_s`."""
        if self._tx is None:
            return
        packet = self._agreed.sender.packet(slot_s, media)
        if packet is None:
            return
        self._send_datagram(self._tx.protect(packet))
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
        receiver, sender = self._agreed
        heard = receiver.report(now)
        reports = () if heard is None else (heard,)
        head = sender.report(now, reports) or ReceiverReport(self.ssrc, reports)
        compound = serialize([head, SourceDescription(((self.ssrc, self._cname),)), *more])
        self._send_datagram(self._tx.protect_rtcp(compound))


def _drop(reason: str) -> None:
    metrics.DATAGRAMS_DROPPED.labels(reason).inc()
