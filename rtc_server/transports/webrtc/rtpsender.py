"""The agent's voice on its way to a peer: encoded, with copies of what was sent before where the peer takes them.

RFC 3550, 3551, 7587 (Opus), 2198 (RED).
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
from rtc_server.media.playout import TIMESTAMP_UNITS_PER_PACKET, PlayoutPacket
from rtc_server.media.rtcp import ReportBlock, SenderReport, SenderStatistics
from rtc_server.media.rtp import write_packet

MOST_COPIES = 2


class RtpSender:
    """One stream of packets. Timestamps are the playout's, in the codec's clock.

    Args:
        ssrc: ours.
        audio: what was agreed on; its codec is the call's.
        dtx: send nothing in pauses, as far as the codec can (Opus); the packet behind one has the marker.
    """

    def __init__(self, ssrc: int, audio: AudioFormat, dtx: bool = False) -> None:
        self.statistics = SenderStatistics(ssrc)
        self._audio = audio
        self._encoder = make_encoder(audio, dtx)
        self._follower = LossFollower(audio.max_bitrate_bps, audio.red_payload_type is not None)
        self._sequence_number = secrets.randbits(15)
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=MOST_COPIES)
        """(timestamp, payload) of the last packets without a pause between them, newest first."""
        self._next_timestamp: int | None = None
        """Of the packet that follows the last one without a pause."""
        self._media_time = (0.0, 0)
        """(when, timestamp) of the last slot, sent or not."""

    def agree(self, audio: AudioFormat) -> None:
        """A later offer may have changed payload types and bitrate, not the codec."""
        self._audio = audio
        self._follower.agree(audio.max_bitrate_bps, audio.red_payload_type is not None)

    def timestamp(self, playout_timestamp: int) -> int:
        """On the wire, of a time of the playout: 32 bits on the stream's own clock."""
        return self._audio.from_48_khz(playout_timestamp) & 0xFFFFFFFF

    def packet(self, slot_s: float, media: PlayoutPacket) -> bytes | None:
        """The RTP packet for 20 ms that are due at `slot_s`; None where nothing needs to be sent."""
        audio = self._audio
        protection = self._follower.protection(slot_s)
        self._encoder.follow(protection.expected_loss_pct, protection.bitrate_bps)
        payload = self._encoder.encode(media.pcm)
        timestamp = audio.from_48_khz(media.timestamp)
        self._media_time = (slot_s, timestamp)
        if not payload:
            return None
        resumes = timestamp != self._next_timestamp
        if resumes:
            self._recent.clear()
        self._next_timestamp = audio.from_48_khz(media.timestamp + TIMESTAMP_UNITS_PER_PACKET)
        payload_type, wrapped = audio.payload_type, payload
        if audio.red_payload_type is not None:
            copies = [(timestamp - at, earlier) for at, earlier in islice(self._recent, protection.copies)]
            payload_type, wrapped = audio.red_payload_type, red.wrap(audio.payload_type, payload, copies)
        self._recent.appendleft((timestamp, payload))
        ssrc, sequence_number = self.statistics.ssrc, self._sequence_number
        self._sequence_number = (sequence_number + 1) & 0xFFFF
        self.statistics.sent(len(wrapped))
        return write_packet(payload_type, sequence_number, timestamp, ssrc, wrapped, marker=resumes)

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
