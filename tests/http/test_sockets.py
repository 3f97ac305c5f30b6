from __future__ import annotations

import asyncio
import base64
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType, web
from aiohttp.test_utils import TestClient

from rtc_server.errors import EngineFull, RtcServerError, TooManyHalfOpen, UnknownVoice
from rtc_server.http import sockets
from rtc_server.http.errors import error_middleware
from rtc_server.http.sockets import (
    MAX_MESSAGE_BYTES,
    MAX_REASON_BYTES,
    SOCKETS,
    AiohttpWire,
    SocketLimits,
    close_sockets,
    serve,
)
from rtc_server.transports.websocket.wire import ConnectionLost
from tests.http.conftest import TestSite
from tests.logs import captured_logs

Client = TestClient[Any, Any]
Conversation = Callable[[AiohttpWire], Awaitable[None]]
Host = Callable[[Conversation], Awaitable[Client]]


class Ear:
    """A listener that remembers."""

    def __init__(self, wire: AiohttpWire) -> None:
        self.wire = wire
        self.heard: list[str | bytes] = []
        self.signs = 0
        self.pongs: list[bytes] = []
        self.lost_for: list[str] = []
        self.waited_for = False

    async def hear(self, message: str | bytes) -> None:
        self.heard.append(message)
        await self.wire.send(message)

    def alive(self) -> None:
        self.signs += 1

    def pong(self, payload: bytes) -> None:
        self.pongs.append(payload)

    def lost(self, reason: str = "peer_closed") -> None:
        self.lost_for.append(reason)

    async def wait_closed(self) -> None:
        self.waited_for = True


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    """``await host(conversation)``: a client of an endpoint that holds it; its tasks are gone at the end."""
    clients: list[Client] = []

    async def make(converse: Conversation) -> Client:
        async def handle(request: web.Request) -> web.WebSocketResponse:
            return await serve(request, lambda error: f"refused: {error.message}", converse)

        app = web.Application(middlewares=[error_middleware])
        app.add_routes([web.get("/socket", handle, allow_head=False)])
        app[SOCKETS] = set()
        app.on_shutdown.append(close_sockets)
        client: Client = TestClient(TestSite(app))
        await client.start_server()
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.close()
    await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name() == "socket-close"])


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.01)


async def ending(socket: ClientWebSocketResponse) -> tuple[int, str]:
    """Code and reason of the close frame, whatever else comes before it."""
    while (message := await socket.receive(timeout=5)).type is not WSMsgType.CLOSE:
        assert message.type in (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING), message
    return message.data, message.extra or ""


async def unread(client: Client) -> asyncio.StreamWriter:
    """A peer that upgrades, and then reads nothing more."""
    assert client.port is not None
    reader, writer = await asyncio.open_connection(client.host, client.port, limit=1)
    key = base64.b64encode(bytes(16)).decode()
    writer.write(
        f"GET /socket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    await reader.readexactly(len("HTTP/1.1 101"))
    return writer


async def listening(client_does: Callable[[ClientWebSocketResponse], Awaitable[None]], host: Host) -> Ear:
    ears: list[Ear] = []

    async def converse(wire: AiohttpWire) -> None:
        ears.append(Ear(wire))
        await wire.listen(ears[0], ears[0].hear)

    client = await host(converse)
    async with client.ws_connect("/socket", autoping=False, max_msg_size=0) as socket:
        await client_does(socket)
    await until(lambda: bool(ears) and ears[0].waited_for)
    return ears[0]


async def test_text_and_binary_go_both_ways_in_order(host: Host) -> None:
    async def talk(socket: ClientWebSocketResponse) -> None:
        await socket.send_str("one")
        await socket.send_bytes(b"two")
        await socket.send_bytes(b"")
        assert [(await socket.receive()).data for _ in range(3)] == ["one", b"two", b""]

    ear = await listening(talk, host)
    assert ear.heard == ["one", b"two", b""]
    assert ear.signs == 3


async def test_pings_are_answered_and_pongs_are_the_legs(host: Host) -> None:
    async def talk(socket: ClientWebSocketResponse) -> None:
        await socket.ping(b"are you there")
        answer = await socket.receive()
        assert (answer.type, bytes(answer.data)) == (WSMsgType.PONG, b"are you there")
        await socket.pong(b"7")
        await socket.send_str("behind them")
        await socket.receive()

    ear = await listening(talk, host)
    assert ear.pongs == [b"7"]
    assert ear.signs == 3


async def test_pings_of_ours_carry_their_payload(host: Host) -> None:
    async def converse(wire: AiohttpWire) -> None:
        await wire.ping(b"8")
        await wire.receive()

    client = await host(converse)
    async with client.ws_connect("/socket", autoping=False) as socket:
        ping = await socket.receive()
        assert (ping.type, bytes(ping.data)) == (WSMsgType.PING, b"8")


async def test_leg_is_told_once_that_the_socket_is_closed(host: Host) -> None:
    async def talk(socket: ClientWebSocketResponse) -> None:
        await socket.close()
        assert socket.close_code == 1000

    ear = await listening(talk, host)
    assert ear.lost_for == ["peer_closed"]


async def test_leg_is_told_when_the_peer_is_just_gone(host: Host) -> None:
    async def talk(socket: ClientWebSocketResponse) -> None:
        await socket.send_str("hello")
        transport = socket.get_extra_info("socket")
        assert transport is not None
        socket._response.connection.transport.abort()  # type: ignore[union-attr]

    ear = await listening(talk, host)
    assert ear.lost_for == ["peer_closed"]


async def test_sending_to_who_is_gone_is_an_error_of_its_own(host: Host) -> None:
    raised: list[Exception] = []

    async def converse(wire: AiohttpWire) -> None:
        assert await wire.receive() is None
        for action in (wire.send("text"), wire.send(b"bytes"), wire.ping(b"")):
            try:
                await action
            except ConnectionLost as error:
                raised.append(error)

    client = await host(converse)
    async with client.ws_connect("/socket") as socket:
        await socket.close()
    await until(lambda: len(raised) == 3)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EngineFull("all slots are in use", hint="try again"), 1013),
        (UnknownVoice("voice 'x' is unknown", hint="there are a, b"), 1008),
        (RtcServerError("broken"), 1011),
    ],
)
async def test_refusal_comes_in_words_and_as_a_close_code(host: Host, error: RtcServerError, code: int) -> None:
    async def converse(wire: AiohttpWire) -> None:
        raise error

    client = await host(converse)
    async with client.ws_connect("/socket", autoclose=False) as socket:
        assert await socket.receive_str() == f"refused: {error.message}"
        assert await ending(socket) == (code, str(error))


async def test_refusal_that_a_close_frame_cannot_hold_is_cut_between_characters(host: Host) -> None:
    async def converse(wire: AiohttpWire) -> None:
        raise EngineFull("x" + "é" * 100)

    client = await host(converse)
    async with client.ws_connect("/socket", autoclose=False) as socket:
        code, reason = await ending(socket)
    assert (code, reason) == (1013, "x" + "é" * ((MAX_REASON_BYTES - 1) // 2))


async def test_defect_of_ours_is_1011_and_one_log_entry(host: Host) -> None:
    async def converse(wire: AiohttpWire) -> None:
        raise ValueError("a defect")

    client = await host(converse)
    with captured_logs() as entries:
        async with client.ws_connect("/socket", autoclose=False) as socket:
            words = await socket.receive_str()
            code, reason = await ending(socket)
    assert code == 1011 and "mistake" in reason and "defect" not in words + reason
    assert [entry["event"] for entry in entries if entry["log_level"] == "error"] == ["socket failed"]


async def test_defect_while_hearing_is_not_taken_for_the_peers_goodbye(host: Host) -> None:
    ears: list[Ear] = []

    async def converse(wire: AiohttpWire) -> None:
        async def hear(message: str | bytes) -> None:
            raise ValueError("a defect")

        ears.append(Ear(wire))
        await wire.listen(ears[0], hear)

    client = await host(converse)
    with captured_logs() as entries:
        async with client.ws_connect("/socket", autoclose=False) as socket:
            await socket.send_str("hello")
            assert (await ending(socket))[0] == 1011
    assert ears[0].lost_for[0] == "internal_error" and ears[0].waited_for
    assert [entry["event"] for entry in entries if entry["log_level"] == "error"] == ["socket failed"]


async def test_request_that_is_no_websocket_is_told_so(host: Host) -> None:
    async def converse(wire: AiohttpWire) -> None: ...

    client = await host(converse)
    response = await client.get("/socket")
    assert response.status == 400
    assert "ws://" in (await response.json())["hint"]
    assert (await client.head("/socket")).status == 405
    assert (await client.get("/socket", headers={"Upgrade": "websocket", "Connection": "Upgrade"})).status == 400


async def test_goodbye_reaches_a_peer_that_goes_on_talking(host: Host) -> None:
    async def converse(wire: AiohttpWire) -> None:
        receiving = asyncio.create_task(wire.receive())
        assert await receiving == "first"
        waiting = asyncio.create_task(wire.receive())
        await asyncio.sleep(0)
        await asyncio.gather(wire.close(1012, "restarting"), wire.close(1000, "too late"))
        assert await waiting is None
        assert await wire.receive() is None

    client = await host(converse)
    async with client.ws_connect("/socket", autoclose=False) as socket:
        await socket.send_str("first")

        async def talk_on() -> None:
            while True:
                await socket.send_bytes(bytes(8000))
                await asyncio.sleep(0)

        talking = asyncio.create_task(talk_on())
        assert await ending(socket) == (1012, "restarting")
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)


async def test_message_over_the_limit_is_1009(host: Host) -> None:
    async def talk(socket: ClientWebSocketResponse) -> None:
        await socket.send_bytes(bytes(MAX_MESSAGE_BYTES))
        assert len(await socket.receive_bytes(timeout=5)) == MAX_MESSAGE_BYTES
        # Only its header: what follows may be refused by the kernel before the answer is read.
        await socket.send_str("more")
        await socket.receive(timeout=5)
        header = struct.pack("!BBQ4s", 0x82, 0x80 | 127, MAX_MESSAGE_BYTES + 1, bytes(4))
        socket._writer.transport.write(header)
        message = await socket.receive(timeout=5)
        assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED) and socket.close_code == 1009

    ear = await listening(talk, host)
    assert ear.lost_for == ["peer_closed"]


async def test_sockets_without_a_conversation_do_not_hold_up_the_end(host: Host) -> None:
    async def converse(wire: AiohttpWire) -> None:
        assert await wire.receive() is None

    client = await host(converse)
    async with client.ws_connect("/socket", autoclose=False) as socket:
        stopping = asyncio.create_task(client.server.close())
        assert await ending(socket) == (1012, "the server is shutting down")
        await socket.close()
        await stopping


async def test_nothing_is_compressed(host: Host) -> None:
    async def talk(socket: ClientWebSocketResponse) -> None:
        assert not socket.compress

    await listening(talk, host)


async def test_sending_waits_for_who_does_not_read_and_closing_does_not(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "CLOSE_S", 0.1)
    sent: list[int] = []
    closed: list[float] = []
    clock = asyncio.get_running_loop().time

    async def converse(wire: AiohttpWire) -> None:
        try:
            async with asyncio.timeout(0.5):
                while True:
                    await wire.send(bytes(100_000))
                    sent.append(100_000)
        except TimeoutError:
            began_s = clock()
            await wire.close(1008, "the client does not read")
            closed.append(clock() - began_s)

    client = await host(converse)
    writer = await unread(client)
    await until(lambda: bool(closed))
    assert sum(sent) < 20_000_000  # what the two kernels hold
    assert closed[0] < 2
    with pytest.raises(ConnectionError):
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)


async def test_only_so_many_sockets_may_wait_for_their_first_message() -> None:
    limits = SocketLimits(max_unopened=2)
    with limits.unopened(), limits.unopened(), pytest.raises(TooManyHalfOpen), limits.unopened():
        pass
    with limits.unopened():
        pass
