"""RTP and RTCP of one call, under SRTP or plain (RFC 3550, 3711): a stream each way, and the reports about both.

Everything happens in the callback that brings the datagram, or in the pacer's slot; nothing waits and nothing queues.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple

import pylibsrtp

from rtc_server import metrics
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.frames import SAMPLE_RATE
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.playout import TIMESTAMP_UNITS_PER_SAMPLE, PlayoutPacket
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
from rtc_server.transports.rtp.digitformat import DigitFormat
from rtc_server.transports.rtp.protection import PlainRtp, Protection
from rtc_server.transports.rtp.receiver import RtpReceiver
from rtc_server.transports.rtp.sender import RtpSender

REPORT_EVERY_S = 1.0
PACKETS_PER_S = 250.0
PACKETS_BURST = 500.0
"""What a peer may send: packets of 10 ms, their double, and what a stalled network lets go at once."""

_PACKETS_IN = metrics.PACKETS.labels("in")
_PACKETS_OUT = metrics.PACKETS.labels("out")
REKEYING_S = 2.0
"""How long packets under the key before are taken, behind a change of keys."""


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
        send_rtcp: where RTCP has a path of its own.
        on_digit: hears each digit of the peer once.
    """

    def __init__(
        self,
        ssrc: int,
        cname: str,
        send: Callable[[bytes], bool],
        clock: Callable[[], float],
        dtx: bool = False,
        *,
        send_rtcp: Callable[[bytes], bool] | None = None,
        on_digit: Callable[[str], None] = lambda digit: None,
    ) -> None:
        self.ssrc = ssrc
        self.last_audio_s: float | None = None
        self._cname = cname
        self._send_datagram = send
        self._send_rtcp_datagram = send_rtcp or send
        self._on_digit = on_digit
        self._clock = clock
        self._dtx = dtx
        self._streams: _Streams | None = None
        self._ptime_ms = 20
        self._rx: Protection | None = None
        self._tx: Protection | None = None
        self._old_rx: tuple[Protection, float] | None = None
        """Keys of before, and until when they are good."""
        self._next_report_s = 0.0
        self._packets = RateLimit(PACKETS_PER_S, PACKETS_BURST)
        self._worst_lateness_s = 0.0
        self._uncounted_in = self._uncounted_out = 0
        """Packets that the metrics know nothing of yet: to tell of each one costs more than to tell once a second."""

    def negotiated(self, audio: AudioFormat, digits: DigitFormat | None = None, ptime_ms: int = 20) -> None:
        """Offer and answer agreed on this; a later one of the call goes on with the same streams.

        Args:
            digits: None where telephone events were not agreed on.
            ptime_ms: of the packets that we send, 20, or 10.
        """
        if self._streams is None:
            self._streams = _Streams(RtpReceiver(audio, self._on_digit), RtpSender(self.ssrc, audio, self._dtx))
        receiver, sender = self._streams
        receiver.agree(audio, digits)
        sender.agree(audio, digits)
        self._ptime_ms = ptime_ms

    @property
    def _agreed(self) -> _Streams:
        assert self._streams is not None, "nothing is negotiated yet"
        return self._streams

    @property
    def jitter_buffer(self) -> JitterBuffer:
        """Holds what the peer says; one for the whole call, from the first `negotiated` on."""
        return self._agreed.receiver.jitter_buffer

    @property
    def loss(self) -> float:
        """Share of the peer's packets that were lost, up to the last report that we sent."""
        return self._agreed.receiver.statistics.loss

    @property
    def round_trip_s(self) -> float | None:
        return self._agreed.sender.statistics.round_trip_s

    def start(self, rx: Protection, tx: Protection) -> None:
        """Keys are there: from now on packets go both ways. Again, when the keys change: what is still on its way under
        those of before is taken for a while, but plain packets never."""
        if self._rx is not None and self._rx is not rx and not isinstance(self._rx, PlainRtp):
            self._old_rx = self._rx, self._clock() + REKEYING_S
        self._rx, self._tx = rx, tx

    def timestamp(self, playout_timestamp: int) -> int:
        """On the wire, of a time of the playout: 32 bits on the stream's own clock."""
        return self._agreed.sender.timestamp(playout_timestamp)

    def take_worst_lateness_s(self) -> float:
        """Of packets sent since the last call."""
        worst, self._worst_lateness_s = self._worst_lateness_s, 0.0
        return worst

    # ---- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, rtcp: bool | None = None) -> bool:
        """One datagram of RTP or RTCP. What cannot be used is counted and dropped.

        Args:
            rtcp: which of the two it is; to be told from its bytes where both share a port.

        Returns: True when the peer itself has sent it, just now: it authenticates and is no copy. Of plain RTP that can
            not be told, only that it is well-formed.
        """
        now = self._clock()
        if rtcp is None:
            rtcp = is_rtcp(data)
        if self._rx is None or not self._packets.allow(now):
            _drop("rtp_flood" if self._rx is not None else "early_srtp")
            return False
        try:
            plain = self._rx.unprotect_rtcp(data) if rtcp else self._rx.unprotect(data)
        except (pylibsrtp.Error, ValueError):  # ValueError: longer than libsrtp takes, before anything is authenticated
            older = self._unprotect_as_before(now, data, rtcp)
            if older is None:
                _drop("bad_srtp")
                return False
            plain = older
        try:
            if rtcp:
                self._receive_rtcp(now, plain)
            else:
                self._receive_rtp(now, plain)
        except (MalformedRtp, MalformedRtcp, MalformedRed):
            _drop("bad_rtp")
            return False
        return True

    def _unprotect_as_before(self, now: float, data: bytes, rtcp: bool) -> bytes | None:
        """With the keys of before, shortly behind a change of keys."""
        if self._old_rx is None:
            return None
        rx, until_s = self._old_rx
        if now >= until_s:
            self._old_rx = None
            return None
        try:
            return rx.unprotect_rtcp(data) if rtcp else rx.unprotect(data)
        except (pylibsrtp.Error, ValueError):
            return None

    def _receive_rtp(self, now: float, data: bytes) -> None:
        self._uncounted_in += 1
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
        """Encode, protect and send 20 ms that were due at `slot_s`: in one packet or two, or a digit in their place."""
        if self._tx is None:
            return
        sender = self._agreed.sender
        digit = sender.digit(slot_s, media)
        if digit is not None:
            self._send_rtp(slot_s, digit, self._tx)
            return
        for at_s, part in ((slot_s, media),) if self._ptime_ms == 20 else _halves(slot_s, media):
            packet = sender.packet(at_s, part)
            if packet is not None:
                self._send_rtp(slot_s, packet, self._tx)

    def send_digits(self, digits: str) -> None:
        """Send them one after the other, each as telephone events in the place of audio.

        Raises: ValueError, for what is no key of a phone, or where no telephone events are agreed on; DigitsPending,
            where too many wait.
        """
        self._agreed.sender.queue_digits(digits)

    def _send_rtp(self, slot_s: float, packet: bytes, tx: Protection) -> None:
        self._send_datagram(tx.protect(packet))
        lateness_s = self._clock() - slot_s
        self._worst_lateness_s = max(self._worst_lateness_s, lateness_s)
        metrics.PACKET_LATENESS_SECONDS.observe(lateness_s)
        self._uncounted_out += 1

    def report_when_due(self, now: float) -> None:
        """About once a second: what we sent, how we hear the peer."""
        self._agreed.receiver.poll(now)
        if now < self._next_report_s or self._tx is None:
            return
        self._next_report_s = now + REPORT_EVERY_S * (0.9 + 0.2 * secrets.randbelow(1000) / 1000)
        self._count_packets()
        self._send_rtcp(now)

    def send_bye(self) -> None:
        """RFC 3550 section 6.6: the stream ends."""
        self._count_packets()
        if self._tx is not None:
            self._send_rtcp(self._clock(), Bye((self.ssrc,)))
            self._rx = self._tx = None

    def _count_packets(self) -> None:
        _PACKETS_IN.inc(self._uncounted_in)
        _PACKETS_OUT.inc(self._uncounted_out)
        self._uncounted_in = self._uncounted_out = 0

    def _send_rtcp(self, now: float, *more: Bye) -> None:
        assert self._tx is not None
        receiver, sender = self._agreed
        heard = receiver.report(now)
        reports = () if heard is None else (heard,)
        head = sender.report(now, reports) or ReceiverReport(self.ssrc, reports)
        compound = serialize([head, SourceDescription(((self.ssrc, self._cname),)), *more])
        self._send_rtcp_datagram(self._tx.protect_rtcp(compound))


def _halves(slot_s: float, media: PlayoutPacket) -> tuple[tuple[float, PlayoutPacket], tuple[float, PlayoutPacket]]:
    """20 ms as twice 10 ms, each with its own time."""
    middle = media.pcm.size // 2
    later = media.timestamp + middle * TIMESTAMP_UNITS_PER_SAMPLE
    first = PlayoutPacket(media.timestamp, media.pcm[:middle], media.silence)
    return (slot_s, first), (slot_s + middle / SAMPLE_RATE, PlayoutPacket(later, media.pcm[middle:], media.silence))


def _drop(reason: str) -> None:
    metrics.DATAGRAMS_DROPPED.labels(reason).inc()
