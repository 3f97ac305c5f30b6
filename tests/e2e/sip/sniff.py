"""What really goes over the loopback interface: the payloads of UDP packets, as anybody on the way could read them."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

_ALL_PROTOCOLS = 3
_ETHERNET_BYTES, _UDP_BYTES = 14, 8
_OUTGOING = 4


class Sniffed:
    """Payloads by the port that they were sent to, in order of time."""

    def __init__(self, first_port: int, last_port: int) -> None:
        self._ports = range(first_port, last_port + 1)
        self.payloads: list[bytes] = []

    def take(self, frame: bytes) -> None:
        header_bytes = 4 * (frame[_ETHERNET_BYTES] & 15)
        udp = frame[_ETHERNET_BYTES + header_bytes :]
        if frame[12:14] != b"\x08\x00" or frame[_ETHERNET_BYTES + 9] != socket.IPPROTO_UDP or len(udp) < _UDP_BYTES:
            return
        if any(port in self._ports for port in struct.unpack("!HH", udp[:4])):
            self.payloads.append(udp[_UDP_BYTES:])


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
