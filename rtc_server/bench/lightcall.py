"""What every light call does: packets of a voice go up, and what comes down is kept.

Light means: no jitter buffer, no decoder, no task per packet. What comes is stored as it came off the socket and opened
after the run, so that many calls fit beside each other on a core that is not the server's.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from rtc_server.bench.analysis import ReceivedPacket
from rtc_server.bench.figures import Setup
from rtc_server.bench.impairment import Uplink
from rtc_server.bench.signals import PACKET_S
from rtc_server.bench.stream import OutgoingStream
from rtc_server.errors import PeerError
from rtc_server.media.rtp import RtpPacket

FIRST_PACKET_TIMEOUT_S = 10.0


class LightCall(ABC):
    """Loop thread only.

    Args:
        uplink: loses packets before they reach the network.
    """

    def __init__(self, stream: OutgoingStream, uplink: Uplink | None = None) -> None:
        self.setup = Setup()
        self.stream = stream
        self.uplink = uplink or Uplink()
        self.events = 0
        self.first_capture_s: float | None = None
        """When the first sample of the first packet was captured."""
        self._raw: list[tuple[float, bytes]] = []
        self._first_packet = asyncio.Event()

    @abstractmethod
    async def close(self) -> None:
        """Hang up, and free the sockets. May be called twice."""

    @abstractmethod
    def send_packet(self, due_s: float) -> None:
        """The microphone's next 20 ms, whose last sample was captured at `due_s`."""

    @abstractmethod
    def _opened(self, datagram: bytes) -> RtpPacket | None:
        """As the server wrote it; None for what is not authentic, no RTP, or of another payload type."""

    async def first_packet(self) -> None:
        """Wait for the agent's first packet.

        Raises: PeerError when none comes.
        """
        try:
            await asyncio.wait_for(self._first_packet.wait(), FIRST_PACKET_TIMEOUT_S)
        except TimeoutError:
            raise PeerError(f"connected, but no audio came within {FIRST_PACKET_TIMEOUT_S:g} s") from None

    def next_packet(self, due_s: float) -> bytes | None:
        """Of the voice, to be sent; None when the uplink loses it."""
        if self.first_capture_s is None:
            self.first_capture_s = due_s - PACKET_S
        packet = self.stream.next_packet()
        return None if self.uplink.loses(due_s) else packet

    def packets_sent_by(self, now: float) -> int:
        """How many packets the microphone had filled at `now`."""
        if self.first_capture_s is None:
            return 0
        return min(self.stream.sent, max(0, int((now - self.first_capture_s) / PACKET_S)))

    def keep(self, datagram: bytes, arrival_s: float) -> None:
        """A datagram of the agent's voice, opened later."""
        if not self._raw:
            self.setup.first_packet_s = self.setup.first_packet_s or arrival_s
            self._first_packet.set()
        self._raw.append((arrival_s, datagram))

    def received(self) -> list[ReceivedPacket]:
        """Everything that came since the last call and can be used, in order of arrival."""
        packets: list[ReceivedPacket] = []
        for arrival_s, datagram in self._raw:
            packet = self._opened(datagram)
            if packet is not None and packet.payload:
                packets.append(ReceivedPacket(packet.sequence_number, packet.timestamp, arrival_s, packet.payload))
        self._raw.clear()
        return packets
