"""A network that a caller can walk out of: a UDP relay in front of the server, through which browsers are led.

`leave` is the step out of the Wi-Fi: whatever went through it so far goes nowhere any more, both ways, without a word
to anybody. What a browser sends from a new port, as an ICE restart does, is on the next network and gets through.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.e2e.server import ServerProcess

Address = tuple[str, int]

# Put the relay's address in the place of the server's, in every answer that the page takes.
_SCRIPT = """
(() => {
  const prototype = RTCPeerConnection.prototype;
  const native = prototype.setRemoteDescription;
  prototype.setRemoteDescription = function (description) {
    const sdp = description.sdp.replace(/^(a=candidate:\\S+ \\d+ \\S+ \\d+) \\S+ \\d+ /gm, '$1 ' + %s + ' ');
    return native.call(this, { type: description.type, sdp });
  };
})()
"""


class _Receiver(asyncio.DatagramProtocol):
    def __init__(self, receive: Any) -> None:
        self._receive = receive

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._receive(data, (addr[0], addr[1]))


class Detour:
    """One socket towards the browsers, and one for each of their addresses towards the server."""

    def __init__(self, server: Address) -> None:
        self.script = ""
        """To be run in a page before its own scripts."""
        self._server = server
        self._front: asyncio.DatagramTransport | None = None
        self._behind: dict[Address, asyncio.DatagramTransport] = {}
        self._opening: set[Address] = set()
        self._left: set[Address] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._front, _ = await loop.create_datagram_endpoint(
            lambda: _Receiver(self._from_browser), local_addr=(self._server[0], 0)
        )
        host, port = self._front.get_extra_info("sockname")[:2]
        self.script = _SCRIPT % json.dumps(f"{host} {port}")

    @property
    def ways(self) -> int:
        """From how many ports browsers have come."""
        return len(self._behind)

    def leave(self) -> None:
        self._left |= self._behind.keys()

    def close(self) -> None:
        for transport in (self._front, *self._behind.values()):
            if transport is not None:
                transport.close()
        for task in self._tasks:
            task.cancel()

    def _from_browser(self, data: bytes, source: Address) -> None:
        if source in self._left:
            return
        if source in self._behind:
            self._behind[source].sendto(data)
        elif source not in self._opening:  # what comes before the socket is there is lost, and sent again
            self._opening.add(source)
            task = asyncio.get_running_loop().create_task(self._admit(data, source), name="detour-admit")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _admit(self, data: bytes, source: Address) -> None:
        def from_server(answer: bytes, _address: Address) -> None:
            if source not in self._left and self._front is not None:
                self._front.sendto(answer, source)

        self._behind[source], _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Receiver(from_server), remote_addr=self._server
        )
        self._behind[source].sendto(data)


@contextlib.asynccontextmanager
async def running_detour(server: ServerProcess) -> AsyncIterator[Detour]:
    addresses = (await server.get("/v1/config"))[1]["connectivity"]["addresses"]
    address = next(address for address in addresses if ":" not in address)
    detour = Detour((address, server.udp_port))
    await detour.open()
    try:
        yield detour
    finally:
        detour.close()
