from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from rtc_server.engine.client import Lease
from rtc_server.engine.process.link import MAX_BACKLOG_BYTES, Link
from rtc_server.engine.process.messages import (
    FROM_ENGINE,
    TO_ENGINE,
    Drain,
    ErrorReport,
    Failed,
    FromEngine,
    Release,
    Stop,
    ToEngine,
    encode,
)
from rtc_server.engine.process.wire import MAX_PAYLOAD_BYTES, WireError

MESSAGE = Failed(ErrorReport("EngineError", "stopped"))
LEASE = Lease("engine", "incarnation", 0, "token")


class End:
    """A link, and what came over it."""

    def __init__(self) -> None:
        self.received: list[tuple[ToEngine, bytes]] = []
        self.lost = asyncio.Event()
        self.link: Link[ToEngine, FromEngine] = Link(TO_ENGINE, FROM_ENGINE, self._receive, self.lost.set)

    def _receive(self, message: ToEngine, payload: bytes) -> None:
        if isinstance(message, Stop):
            raise WireError("makes no sense here")
        self.received.append((message, payload))


@pytest.fixture
async def ends() -> AsyncIterator[tuple[End, socket.socket]]:
    """A link, and the bare socket at its other end."""
    ours, theirs = socket.socketpair()
    end = End()
    await end.link.open(ours)
    with theirs:
        theirs.setblocking(False)
        yield end, theirs
    end.link.abort()
    await end.lost.wait()


async def test_messages_arrive_with_their_sound(ends: tuple[End, socket.socket]) -> None:
    end, other = ends
    await asyncio.get_running_loop().sock_sendall(
        other, encode(TO_ENGINE, Drain()) + encode(TO_ENGINE, Release(LEASE), b"sound")
    )
    async with asyncio.timeout(5):
        while len(end.received) < 2:
            await asyncio.sleep(0)
    assert end.received == [(Drain(), b""), (Release(LEASE), b"sound")]


@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 20, b"\0\0\0\2\0\0\0\0{}", encode(TO_ENGINE, Stop()), b"GET / HTTP/1.1\r\n\r\n"],
    ids=["sizes", "message", "meaning", "protocol"],
)
async def test_what_is_malformed_closes_it_and_what_follows_is_not_read(
    ends: tuple[End, socket.socket], garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    end, other = ends
    await asyncio.get_running_loop().sock_sendall(other, garbage + encode(TO_ENGINE, Drain()))
    async with asyncio.timeout(5):
        await end.lost.wait()
    assert not end.received and not end.link.send(MESSAGE)
    assert "Traceback" not in caplog.text


async def test_the_other_side_s_end_is_told_once(ends: tuple[End, socket.socket]) -> None:
    end, other = ends
    other.close()
    async with asyncio.timeout(5):
        await end.lost.wait()


async def test_a_side_that_does_not_read_costs_no_more_than_the_backlog(ends: tuple[End, socket.socket]) -> None:
    end, other = ends
    frames = [end.link.send(MESSAGE, bytes(MAX_PAYLOAD_BYTES)) for _ in range(20)]
    assert frames[0] and not frames[-1]
    assert sum(frames) * MAX_PAYLOAD_BYTES <= MAX_BACKLOG_BYTES + MAX_PAYLOAD_BYTES
    read = 0
    async with asyncio.timeout(20):
        while read < sum(frames) * MAX_PAYLOAD_BYTES:
            read += len(await asyncio.get_running_loop().sock_recv(other, 1 << 20))
    assert end.link.send(MESSAGE)
