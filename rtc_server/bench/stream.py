"""A microphone as RTP packets of 20 ms, plain or with a copy of the one before (RFC 2198). Sans-IO."""

from __future__ import annotations

import random
from collections.abc import Iterable

from rtc_server.bench.voice import Voice
from rtc_server.media import red, rtcp, rtp

TIMESTAMPS_PER_PACKET = 960
"""On Opus' clock of 48 kHz."""


class OutgoingStream:
    """What `voice` says, packet by packet; what the receiver's reports say of it goes back to the voice.

    Sequence number and timestamp begin anywhere, but not so high that they wrap within the first minutes.

    Args:
        timestamps_per_packet: 20 ms on the codec's clock.
    """

    def __init__(self, voice: Voice, timestamps_per_packet: int = TIMESTAMPS_PER_PACKET) -> None:
        self.voice = voice
        self._timestamps_per_packet = timestamps_per_packet
        self.sent = 0
        """Packets."""
        self.lost = 0
        """Packets that never reached the receiver, by its last report."""
        self.ssrc = random.getrandbits(32)
        self._sequence = random.getrandbits(15)
        self._timestamp = random.getrandbits(31)
        self._payload_type = 0
        self._red_payload_type: int | None = None
        self._before: bytes | None = None

    def agreed(self, payload_type: int, red_payload_type: int | None, bitrate_bps: int) -> None:
        """To be called before the first packet. With `red_payload_type` each packet also carries the one before."""
        self._payload_type, self._red_payload_type = payload_type, red_payload_type
        self.voice.agreed(bitrate_bps)

    def next_packet(self) -> bytes:
        payload_type, payload = self._next_payload()
        packet = rtp.write_packet(payload_type, self._sequence, self._timestamp, self.ssrc, payload)
        self.sent += 1
        self._sequence = (self._sequence + 1) & 0xFFFF
        self._timestamp = (self._timestamp + self._timestamps_per_packet) & 0xFFFFFFFF
        return packet

    def _next_payload(self) -> tuple[int, bytes]:
        payload = self.voice.next_payload()
        before, self._before = self._before, payload
        if self._red_payload_type is None:
            return self._payload_type, payload
        copies = () if before is None else ((self._timestamps_per_packet, before),)
        return self._red_payload_type, red.wrap(self._payload_type, payload, copies)

    def reported(self, packets: Iterable[rtcp.RtcpPacket]) -> None:
        """Take in a compound packet of the receiver."""
        for packet in packets:
            if isinstance(packet, rtcp.SenderReport | rtcp.ReceiverReport):
                for block in packet.reports:
                    if block.ssrc == self.ssrc:
                        self.lost = block.packets_lost
                        self.voice.loss_reported(block.loss)
