"""A home router between a stock client and our port: it may change its outer address, and it reads what passes."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioice import stun

from rtc_server.transports.webrtc.addresses import default_route_addresses

Address = tuple[str, int]


def local_address() -> str:
    """One on which stock aiortc has a socket too."""
    found = [address for address in default_route_addresses() if ":" not in address]
    return found[0] if found else "127.0.0.1"


class Nat:
    """The client sends to `inner`; the server sees `outer`, the newest of `outers`."""

    def __init__(self, server: Address) -> None:
        self.to_client: list[bytes] = []
        self.to_server: list[bytes] = []
        self.responses: list[stun.Message] = []
        """To checks of our own, `check`."""
        self._server = server
        self._client: Address | None = None
        self._mine: set[bytes] = set()
        self.inner = self._open(self._from_client)
        self.outers = [self._open(self._from_server)]

    @property
    def inner_address(self) -> Address:
        address: Address = self.inner.getsockname()
        return address

    @property
    def outer_address(self) -> Address:
        address: Address = self.outers[-1].getsockname()
        return address

    def rebind(self, keep_old: bool = False) -> None:
        """From now on the client has another address; what is sent to the old one is lost, or still passed on."""
        if not keep_old:
            self._close(self.outers.pop())
        self.outers.append(self._open(self._from_server))

    def check(self, message: stun.Message) -> None:
        """Send a check as a client behind this router would that has just gathered its newest address."""
        self._mine.add(message.transaction_id)
        self.outers[-1].sendto(bytes(message), self._server)

    def answer(self, sdp: str) -> str:
        """An answer of the server with this router as its only candidate."""
        host, port = self.inner_address
        kept = [line for line in sdp.split("\r\n") if not line.startswith("a=candidate:")]
        candidate = f"a=candidate:1 1 udp 2130706431 {host} {port} typ host"
        return "\r\n".join(candidate + "\r\n" + line if line == "a=end-of-candidates" else line for line in kept)

    def close(self) -> None:
        """Nothing passes any more. May be called twice."""
        for item in (self.inner, *self.outers):
            if item.fileno() >= 0:
                self._close(item)

    def _open(self, on_readable: object) -> socket.socket:
        item = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        item.bind((local_address(), 0))
        item.setblocking(False)
        asyncio.get_running_loop().add_reader(item, on_readable, item)  # type: ignore[arg-type]
        return item

    def _close(self, item: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(item)
        item.close()

    def _from_client(self, item: socket.socket) -> None:
        data, self._client = item.recvfrom(4096)
        self.to_server.append(data)
        self.outers[-1].sendto(data, self._server)

    def _from_server(self, item: socket.socket) -> None:
        data = item.recv(4096)
        if data[0] <= 3 and data[8:20] in self._mine:
            self.responses.append(stun.parse_message(data))
        elif self._client is not None:
            self.to_client.append(data)
            self.inner.sendto(data, self._client)


@asynccontextmanager
async def nat(server_port: int) -> AsyncIterator[Nat]:
    made = Nat((local_address(), server_port))
    try:
        yield made
    finally:
        made.close()


def rtp_sequence_numbers(datagrams: list[bytes]) -> list[int]:
    """Of the SRTP packets among them, in the order in which they passed."""
    return [struct.unpack_from("!H", data, 2)[0] for data in datagrams if is_rtp(data)]


def is_rtp(data: bytes) -> bool:
    return 127 < data[0] < 192 and not 192 <= data[1] <= 223


def is_handshake(data: bytes) -> bool:
    """DTLS ChangeCipherSpec or Handshake."""
    return data[0] in (20, 22)
