"""The agent's voice on its way to a peer: encoded, with copies of what was sent before where the peer takes them.

RFC 3550, 3551, 7587 (Opus), 2198 (RED), 4733 (digits).
"""

from __future__ import annotations

import dataclasses
import secrets
from collections import deque
from itertools import islice

from rtc_server.media import red
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.codecs import make_encoder
from rtc_server.media.lossfollower import LossFollower
from rtc_server.media.playout import TIMESTAMP_UNITS_PER_SAMPLE, PlayoutPacket
from rtc_server.media.rtcp import ReportBlock, SenderReport, SenderStatistics
from rtc_server.media.rtp import write_packet
from rtc_server.media.telephoneevent import DigitSender
from rtc_server.transports.rtp.digitformat import DigitFormat

MOST_COPIES = 2


class RtpSender:
    """One stream of packets. Timestamps are the playout's, in the codec's clock; where another codec has another clock,
    they go on from where they were.

    Args:
        ssrc: ours.
        audio: what was agreed on first.
        dtx: send nothing in pauses, as far as the codec can (Opus); the packet behind one has the marker.
    """

    def __init__(self, ssrc: int, audio: AudioFormat, dtx: bool = False) -> None:
        self.statistics = SenderStatistics(ssrc)
        self._audio = audio
        self._dtx = dtx
        self._encoder = make_encoder(audio, dtx)
        self._follower = LossFollower(audio.max_bitrate_bps, audio.red_payload_type is not None)
        self._sequence_number = secrets.randbits(15)
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=MOST_COPIES)
        """(timestamp, payload) of the last packets without a pause between them, newest first."""
        self._next_timestamp: int | None = None
        """Of the packet that follows the last one without a pause."""
        self._media_time = (0.0, 0)
        """(when, timestamp) of the last slot, sent or not."""
        self._offset = 0
        """Of our timestamps, against those of a call that has had this clock from its beginning."""
        self._playout_end = 0
        """Behind the last packet, in the playout's time."""
        self._digits: DigitSender | None = None
        self._digit_format: DigitFormat | None = None

    def agree(self, audio: AudioFormat, digits: DigitFormat | None = None) -> None:
        """A later offer may have changed everything.

        Raises: MissingLibrary, as `make_encoder`; then nothing has changed.
        """
        before = self._audio
        if audio.codec != before.codec:
            self._encoder = make_encoder(audio, self._dtx)
            self._recent.clear()
        self._offset += before.from_48_khz(self._playout_end) - audio.from_48_khz(self._playout_end)
        self._audio = audio
        if digits is not None and (self._digit_format is None or digits.clock_hz != self._digit_format.clock_hz):
            self._digits = DigitSender(digits.clock_hz)
        self._digit_format = digits
        self._follower.agree(audio.max_bitrate_bps, audio.red_payload_type is not None)

    def timestamp(self, playout_timestamp: int) -> int:
        """On the wire, of a time of the playout: 32 bits on the stream's own clock."""
        return self._at(playout_timestamp) & 0xFFFFFFFF

    def _at(self, playout_timestamp: int) -> int:
        return self._audio.from_48_khz(playout_timestamp) + self._offset

    def packet(self, slot_s: float, media: PlayoutPacket) -> bytes | None:
        """The RTP packet for the 10 or 20 ms that are due at `slot_s`; None where nothing needs to be sent."""
        audio, copies = self._audio, 0
        if audio.codec == "opus" or audio.red_payload_type is not None:  # the others cannot follow
            protection = self._follower.protection(slot_s)
            self._encoder.follow(protection.expected_loss_pct, protection.bitrate_bps)
            copies = protection.copies
        payload = self._encoder.encode(media.pcm)
        timestamp = self._begin(slot_s, media)
        if not payload:
            return None
        resumes = timestamp != self._next_timestamp
        if resumes:
            self._recent.clear()
        self._next_timestamp = self._at(self._playout_end)
        payload_type, wrapped = audio.payload_type, payload
        if audio.red_payload_type is not None:
            blocks = [(timestamp - at, earlier) for at, earlier in islice(self._recent, copies)]
            payload_type, wrapped = audio.red_payload_type, red.wrap(audio.payload_type, payload, blocks)
        self._recent.appendleft((timestamp, payload))
        return self._write(payload_type, timestamp, wrapped, resumes)

    def queue_digits(self, digits: str) -> None:
        """Send these instead of audio, from the next slot on.

        Raises: ValueError, for what is no key of a phone, or where no telephone events are agreed on; DigitsPending,
            where too many wait.
        """
        if self._digits is None or self._digit_format is None:
            raise ValueError("the other end takes no telephone events")
        self._digits.queue(digits)

    def digit(self, slot_s: float, media: PlayoutPacket) -> bytes | None:
        """The packet that a digit needs in this slot, in the place of `media`; None where there is none to be sent."""
        if self._digits is None or self._digit_format is None:
            return None
        event = self._digits.next(self.timestamp(media.timestamp))
        if event is None:
            return None
        self._begin(slot_s, media)
        return self._write(self._digit_format.payload_type, event.timestamp, event.payload, event.marker)

    def _begin(self, slot_s: float, media: PlayoutPacket) -> int:
        timestamp = self._at(media.timestamp)
        self._media_time = (slot_s, timestamp)
        self._playout_end = media.timestamp + media.pcm.size * TIMESTAMP_UNITS_PER_SAMPLE
        return timestamp

    def _write(self, payload_type: int, timestamp: int, payload: bytes, marker: bool) -> bytes:
        sequence_number = self._sequence_number
        self._sequence_number = (sequence_number + 1) & 0xFFFF
        self.statistics.sent(len(payload))
        return write_packet(payload_type, sequence_number, timestamp, self.statistics.ssrc, payload, marker)

    def reported(self, now: float, block: ReportBlock) -> None:
        """Take in a report block of the peer; one about another source is ignored."""
        if block.ssrc == self.statistics.ssrc:
            self.statistics.reported(now, block)
            self._follower.report(now, block.loss)

    def report(self, now: float, reports: tuple[ReportBlock, ...]) -> SenderReport | None:
        """With what we say about the peer; None before the first packet. In pauses the media clock goes on."""
        if not self.statistics.packets_sent:
            return None
        slot_s, timestamp = self._media_time
        media_time = timestamp + int((now - slot_s) * self._audio.clock_hz)
        return dataclasses.replace(self.statistics.report(now, media_time), reports=reports)
