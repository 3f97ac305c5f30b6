"""A network that keeps what it was told, messages for it, and a stranger's end of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from rtc_server import metrics
from rtc_server.config.sip import parse_listen
from rtc_server.transports.sip.flow import Address, Flow, transport_named
from rtc_server.transports.sip.message.message import SipParseError
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.network import SipNetwork
from tests.counted import Counted

LOOPBACK = ("udp:127.0.0.1:0", "tcp:127.0.0.1:0")
WAIT_S = 5.0
"""Far longer than anything takes, for a machine that is busy."""


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Heard:
    """What a network has told."""

    def __init__(self) -> None:
        self.refused = Counted(metrics.SIP_CONNECTIONS_REFUSED)
        self.ended = Counted(metrics.SIP_CONNECTIONS_CLOSED)
        self.messages: list[tuple[bytes, Flow]] = []
        self.closed: list[Flow] = []
        self.unreadable: list[tuple[SipParseError, Flow]] = []
        self.on_message: Callable[[bytes, Flow], None] | None = None

    def message(self, data: bytes, flow: Flow) -> None:
        self.messages.append((data, flow))
        if self.on_message is not None:
            self.on_message(data, flow)

    async def flow(self, number: int = 1) -> Flow:
        """Of the message with this number, when it has come."""
        await until(lambda: len(self.messages) >= number)
        return self.messages[number - 1][1]


@asynccontextmanager
async def network(*places: str, **options: Any) -> AsyncIterator[tuple[SipNetwork, Heard]]:
    heard = Heard()
    opened = SipNetwork(
        [place_named(text) for text in places or LOOPBACK],
        heard.message,
        heard.closed.append,
        on_unreadable=lambda error, flow: heard.unreadable.append((error, flow)),
        **options,
    )
    await opened.start()
    try:
        yield opened, heard
    finally:
        await opened.close()


def place_named(text: str) -> ListenOn:
    """As the settings have it, with a port."""
    name, host, port = parse_listen(text)
    assert port is not None
    return ListenOn(transport_named(name), host, port)


def place_of(opened: SipNetwork, transport: str) -> Address:
    """Where it listens; on loopback where it listens everywhere."""
    place = next(place for place in opened.listening if place.transport == transport)
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(place.host, place.host), place.port


def options_request(number: int = 1, body: bytes = b"") -> bytes:
    head = (
        "OPTIONS sip:agent@127.0.0.1 SIP/2.0\r\n"
        f"Via: SIP/2.0/TCP 127.0.0.1:5060;branch=z9hG4bK{number}\r\n"
        "From: <sip:probe@127.0.0.1>;tag=1\r\n"
        "To: <sip:agent@127.0.0.1>\r\n"
        f"Call-ID: {number}\r\n"
        f"CSeq: {number} OPTIONS\r\n"
        "Max-Forwards: 70\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.002)


class Stranger:
    """The other end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.address: Address = writer.get_extra_info("sockname")[:2]

    @classmethod
    async def connect(cls, address: Address, **options: Any) -> Stranger:
        return cls(*await asyncio.open_connection(*address, **options))

    def say(self, data: bytes) -> None:
        self._writer.write(data)

    async def hear(self, size: int) -> bytes:
        async with asyncio.timeout(WAIT_S):
            return await self._reader.readexactly(size)

    async def is_hung_up_on(self) -> bool:
        """Waits for it."""
        try:
            async with asyncio.timeout(WAIT_S):
                return not await self._reader.read(1)
        except ConnectionError:
            return True

    def leave(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def stranger(address: Address, **options: Any) -> AsyncIterator[Stranger]:
    one = await Stranger.connect(address, **options)
    try:
        yield one
    finally:
        one.leave()
