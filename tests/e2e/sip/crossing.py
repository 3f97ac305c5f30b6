"""A line between the server and a phone on which changes of a call from both ends cross, every time.

Each end takes it for the other one: its addresses stand in what they say in place of theirs. Audio goes past it. It
makes the phone one that knows no UPDATE, and the session so short that the server has to refresh it after 15 s, by a
re-INVITE.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

from rtc_server.transports.sip.message.message import Request, Response, parse

REFRESH_AFTER_S = 15.0
"""Half of the shortest interval that the server goes along with."""
_HOST = "127.0.0.1"
_SHORT_TIMER = rb"\1Session-Expires: 30;refresher=uac"
_UPDATE = re.compile(rb"(?<=\nAllow: )(.*)UPDATE, ")
_TIMER = re.compile(rb"(\n)Session-Expires: [^\r]*")


class Crossing:
    """Over UDP; one call, from the server to the phone.

    A re-INVITE of the server's, and what it says then, is kept back until the phone has sent one too. Each of them so
    gets the other's while its own is open.
    """

    def __init__(self, server_port: int, phone_port: int) -> None:
        self.server_said: list[str] = []
        """Methods and statuses of 200 and more, from the re-INVITE that is kept back; what is repeated counts once."""
        self.phone_said: list[str] = []
        self._server_port = server_port
        self._phone_port = phone_port
        self._ends: list[asyncio.DatagramTransport] = []
        self._known: set[bytes] = set()
        self._kept_back: list[bytes] | None = None
        self._begun = False
        self._news = asyncio.Event()

    async def open(self, port: int) -> None:
        """`port`: where the server thinks that the phone is."""
        loop = asyncio.get_running_loop()
        for receive, own_port in ((self._from_server, port), (self._from_phone, 0)):
            end, _ = await loop.create_datagram_endpoint(partial(_Receiver, receive), local_addr=(_HOST, own_port))
            self._ends.append(end)

    def close(self) -> None:
        for end in self._ends:
            end.close()

    async def until(self, ready: Callable[[Crossing], bool], within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not ready(self):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"in {within_s} s only {self.server_said} and {self.phone_said}") from None

    def _from_server(self, data: bytes) -> None:
        message = parse(data)
        if _changes(message) and not self._begun:
            self._begun, self._kept_back = True, []
        self._note(self.server_said, message, data)
        if self._kept_back is None:
            self._give_phone(data)
        elif data not in self._kept_back:
            self._kept_back.append(data)

    def _from_phone(self, data: bytes) -> None:
        message = parse(data)
        self._note(self.phone_said, message, data)
        self._give_server(data, shorten=isinstance(message, Response))
        if _changes(message) and self._kept_back is not None:
            kept, self._kept_back = self._kept_back, None
            for earlier in kept:
                self._give_phone(earlier)

    def _give_phone(self, data: bytes) -> None:
        own, taken_for = self._ports()
        data = _readdressed(data, {self._server_port: taken_for, own: self._phone_port})
        self._ends[1].sendto(data, (_HOST, self._phone_port))

    def _give_server(self, data: bytes, *, shorten: bool) -> None:
        own, taken_for = self._ports()
        data = _readdressed(_UPDATE.sub(rb"\1", data), {self._phone_port: own, taken_for: self._server_port})
        self._ends[0].sendto(_TIMER.sub(_SHORT_TIMER, data) if shorten else data, (_HOST, self._server_port))

    def _ports(self) -> tuple[int, int]:
        """Where the server thinks that the phone is, and where the phone thinks that the server is."""
        at_server, at_phone = (end.get_extra_info("sockname")[1] for end in self._ends)
        return at_server, at_phone

    def _note(self, said: list[str], message: Request | Response, data: bytes) -> None:
        if not self._begun or data in self._known:
            return
        self._known.add(data)
        if isinstance(message, Request):
            said.append(message.method)
        elif message.status >= 200:
            said.append(str(message.status))
        self._news.set()


def _changes(message: Request | Response) -> bool:
    """It is a re-INVITE."""
    return isinstance(message, Request) and message.method == "INVITE" and ";tag=" in (message.headers.get("To") or "")


def _readdressed(data: bytes, ports: Mapping[int, int]) -> bytes:
    """Other ports of this host in the headers; a session description has none behind an address."""
    places = re.compile(rb"(?<=127\.0\.0\.1:)(%s)\b" % b"|".join(b"%d" % port for port in ports))
    return places.sub(lambda found: b"%d" % ports[int(found[0])], data)


class _Receiver(asyncio.DatagramProtocol):
    def __init__(self, receive: Callable[[bytes], None]) -> None:
        self._receive = receive

    def datagram_received(self, data: bytes, addr: Any) -> None:
        if data.strip():  # else it keeps a path open
            self._receive(data)


@contextlib.asynccontextmanager
async def crossing(server_port: int, phone_port: int, port: int) -> AsyncIterator[Crossing]:
    """`port`: where the server thinks that the phone is."""
    line = Crossing(server_port, phone_port)
    try:
        await line.open(port)
        yield line
    finally:
        line.close()
