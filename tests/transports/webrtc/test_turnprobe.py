"""The probe against servers that misbehave; a real coturn is asked in tests/turn."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
from aioice import stun

from rtc_server.transports.webrtc.turn import make_credential, parse_url
from rtc_server.transports.webrtc.turnprobe import Verdict, probe_all

CREDENTIAL = make_credential("a-secret-for-tests", "check", 2_000_000_000)
TIMEOUT_S = 0.3


async def verdict_on(url: str, timeout_s: float = TIMEOUT_S) -> Verdict:
    async with asyncio.timeout(10):
        [verdict] = await probe_all([parse_url(url)], CREDENTIAL, ["192.0.2.1"], timeout_s)
    return verdict


@contextlib.asynccontextmanager
async def listening(answer: bytes | None) -> AsyncIterator[int]:
    """A TCP server that says `answer` to everybody and goes on to listen, or hangs up at once where it is None."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is None:
            writer.close()
        else:
            writer.write(answer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class Answering(asyncio.DatagramProtocol):
    """A UDP server that answers each request with what `answers` makes of it, in turn."""

    def __init__(self, *answers: stun.Class | bytes) -> None:
        self.answers = list(answers)
        self.requests: list[stun.Message] = []

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: object) -> None:
        request = stun.parse_message(data)
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else b""
        if isinstance(answer, bytes):
            self.transport.sendto(answer, addr)
            return
        message = stun.Message(request.message_method, answer, request.transaction_id)
        if answer == stun.Class.ERROR:
            message.attributes |= {"ERROR-CODE": (401, "Unauthorized"), "REALM": "r", "NONCE": b"n"}
        else:
            message.attributes["XOR-RELAYED-ADDRESS"] = message.attributes["XOR-MAPPED-ADDRESS"] = ("192.0.2.9", 9)
        self.transport.sendto(bytes(message), addr)


@contextlib.asynccontextmanager
async def answering(*answers: stun.Class | bytes) -> AsyncIterator[tuple[int, Answering]]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: Answering(*answers), ("127.0.0.1", 0))
    try:
        yield transport.get_extra_info("sockname")[1], server
    finally:
        transport.close()


async def test_silence_costs_the_timeout_whatever_the_transport() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        verdict = await verdict_on(f"turn:127.0.0.1:{silent.getsockname()[1]}")
    assert (verdict.ok, verdict.found) == (False, "no answer within 0.3 s")
    async with listening(b"") as port:
        for scheme in ("turn", "turns"):
            verdict = await verdict_on(f"{scheme}:127.0.0.1:{port}?transport=tcp")
            assert (verdict.ok, verdict.found) == (False, "no answer within 0.3 s")
            assert f"TCP port {port}" in verdict.advice


@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(100), b"\x01\x03\xff\xff" * 9])
async def test_what_is_no_turn_server_is_said_to_be_none(answer: bytes | None) -> None:
    async with listening(answer) as port:
        verdict = await verdict_on(f"turn:127.0.0.1:{port}?transport=tcp", timeout_s=5)
    assert verdict.ok is False
    assert "no TURN server" in verdict.found or "reset" in verdict.found


async def test_a_handshake_that_fails_is_no_timeout() -> None:
    async with listening(b"no TLS at all\r\n\r\n") as port:
        verdict = await verdict_on(f"turns:127.0.0.1:{port}", timeout_s=5)
    assert verdict.ok is False
    assert verdict.found.startswith("no TLS")


async def test_an_unknown_name_is_said_to_be_unknown() -> None:
    verdict = await verdict_on("turn:" + "a" * 60 + "." + "b" * 60, timeout_s=5)
    assert verdict.ok is False
    assert verdict.found.startswith(("no address for", "no answer"))


async def test_garbage_is_ignored_and_the_request_repeated() -> None:
    async with answering(b"", b"\xff" * 30, stun.Class.RESPONSE) as (port, server):
        verdict = await verdict_on(f"stun:127.0.0.1:{port}", timeout_s=5)
    assert verdict.ok, verdict
    assert "192.0.2.9" in verdict.found
    assert len({request.transaction_id for request in server.requests}) == 1


async def test_a_relay_for_everybody_is_warned_about() -> None:
    async with answering(stun.Class.RESPONSE) as (port, _):
        verdict = await verdict_on(f"turn:127.0.0.1:{port}", timeout_s=5)
    assert (verdict.ok, verdict.found) == (False, "relays for everybody")


async def test_a_refused_credential_is_said_and_shown_to_nobody() -> None:
    async with answering(*[stun.Class.ERROR] * 3) as (port, server):
        verdict = await verdict_on(f"turn:127.0.0.1:{port}", timeout_s=5)
    assert verdict.ok is False
    assert "wrong secret" in verdict.found
    assert CREDENTIAL.password not in str(verdict)
    assert server.requests[-1].attributes["USERNAME"] == CREDENTIAL.username
