"""What really goes over the loopback interface: the payloads of UDP packets, as anybody on the way could read them.

The sound in them is that which leaves a phone or our server, before the other's buffer has had its way with it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from rtc_server.media.audioformat import AudioFormat, CodecName
from rtc_server.media.codecs import make_decoder
from rtc_server.media.frames import SAMPLE_RATE
from rtc_server.media.rtp import MalformedRtp, RtpPacket, is_rtcp
from tests.e2e.sip.sound import Likeness, likeness
from tests.e2e.speech import Pcm

PAYLOAD_TYPES: dict[CodecName, int] = {"PCMU": 0, "PCMA": 8, "G722": 9}
RTP_CLOCK_HZ = 8000
"""Of all of them."""
_ALL_PROTOCOLS = 3
_ETHERNET_BYTES, _UDP_BYTES = 14, 8
_OUTGOING = 4


class Datagram(NamedTuple):
    source_port: int
    destination_port: int
    payload: bytes


class Sniffed:
    """Datagrams from and to the server's ports, in order of time."""

    def __init__(self, first_port: int, last_port: int) -> None:
        self._ports = range(first_port, last_port + 1)
        self._datagrams: list[Datagram] = []

    @property
    def payloads(self) -> list[bytes]:
        return [datagram.payload for datagram in self._datagrams]

    def echo(self, codec: CodecName) -> Likeness:
        """Of what the server sends to what a phone sends. One call, without SRTP."""
        said = _sound([one.payload for one in self._datagrams if one.destination_port in self._ports], codec)
        heard = _sound([one.payload for one in self._datagrams if one.source_port in self._ports], codec)
        return likeness(said, SAMPLE_RATE, heard, SAMPLE_RATE)

    def take(self, frame: bytes) -> None:
        header_bytes = 4 * (frame[_ETHERNET_BYTES] & 15)
        udp = frame[_ETHERNET_BYTES + header_bytes :]
        if frame[12:14] != b"\x08\x00" or frame[_ETHERNET_BYTES + 9] != socket.IPPROTO_UDP or len(udp) < _UDP_BYTES:
            return
        source_port, destination_port = struct.unpack("!HH", udp[:4])
        if source_port in self._ports or destination_port in self._ports:
            self._datagrams.append(Datagram(source_port, destination_port, udp[_UDP_BYTES:]))


def _rtp(datagrams: list[bytes]) -> Iterator[RtpPacket]:
    """Without RTCP, STUN, and whatever else phones keep a path open with."""
    for datagram in datagrams:
        if not is_rtcp(datagram):
            with contextlib.suppress(MalformedRtp):
                yield RtpPacket.parse(datagram)


def _sound(datagrams: list[bytes], codec: CodecName) -> Pcm:
    """At 24 kHz: each packet where its timestamp puts it, and silence where nothing was sent."""
    packets = [packet for packet in _rtp(datagrams) if packet.payload_type == PAYLOAD_TYPES[codec]]
    sources = {packet.ssrc for packet in packets}
    assert len(sources) == 1, f"{len(packets)} packets from {len(sources)} sources"
    decoder = make_decoder(AudioFormat(codec, PAYLOAD_TYPES[codec], RTP_CLOCK_HZ))
    first = packets[0].timestamp
    after = {(packet.timestamp - first) % 2**32: packet.payload for packet in packets}
    assert max(after) < 3600 * RTP_CLOCK_HZ, "a packet from before the first one"
    parts = [(at * SAMPLE_RATE // RTP_CLOCK_HZ, decoder.decode(payload)) for at, payload in sorted(after.items())]
    pcm = np.zeros(max(at + part.size for at, part in parts), np.float32)
    for at, part in parts:
        pcm[at : at + part.size] = part
    return pcm


@contextlib.contextmanager
def sniffing(first_port: int, last_port: int) -> Iterator[Sniffed]:
    """All UDP packets from and to these ports. Only root may look."""
    try:
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    except PermissionError:
        pytest.skip("only root may look at packets")
    raw.bind(("lo", 0))
    raw.settimeout(0.1)
    sniffed, stop = Sniffed(first_port, last_port), threading.Event()

    def run() -> None:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                frame, address = raw.recvfrom(65536)
                if address[2] == _OUTGOING:  # each packet is seen twice, as it goes and as it comes
                    sniffed.take(frame)

    thread = threading.Thread(target=run, name="sniffer")
    thread.start()
    try:
        yield sniffed
    finally:
        stop.set()
        thread.join()
        raw.close()
