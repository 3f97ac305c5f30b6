"""The whole house in one process, on free ports, with the echo engine."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from rtc_server import config
from rtc_server.errors import ConfigError, UnknownEngine
from rtc_server.server import Server
from tests.logs import captured_logs, entry_of

pytestmark = pytest.mark.timeout(60)

OFFER = "\r\n".join(
    [
        "v=0",
        "o=- 1 2 IN IP4 127.0.0.1",
        "s=-",
        "t=0 0",
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "c=IN IP4 0.0.0.0",
        "a=mid:0",
        "a=ice-ufrag:abcd",
        "a=ice-pwd:0123456789abcdefghijklmn",
        "a=fingerprint:sha-256 " + ":".join(["AB"] * 32),
        "a=setup:actpass",
        "a=rtcp-mux",
        "a=sendrecv",
        "a=rtpmap:111 opus/48000/2",
        "",
    ]
)


def settings(**flags: object) -> config.Settings:
    return config.load({"engine": "echo", "slots": 2, "port": 0, "udp_port": 0, "drain_s": 0.2, **flags})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server(settings())
    await server.start()
    yield server
    await server.stop()


async def post(server: Server, sdp: str = OFFER) -> tuple[int, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{server.url}v1/sessions", json={"sdp": sdp, "type": "offer"}) as response,
    ):
        return response.status, await response.json()


async def test_answers_an_offer_and_frees_everything_at_the_end(server: Server) -> None:
    status, body = await post(server)
    assert status == 201
    assert "a=ice-lite" in body["sdp"]
    assert server.engine.capacity().in_use == 1
    await server.stop()
    assert len(server.registry) == 0
    assert server.webrtc.legs == set()


async def test_full_server_refuses_and_the_others_go_on(server: Server) -> None:
    ids = [(await post(server))[1]["id"] for _ in range(2)]
    status, body = await post(server)
    assert (status, body["code"]) == (503, "engine_full")
    assert {session.id for session in server.registry} == set(ids)


async def test_bad_offer_leaves_no_slot_behind(server: Server) -> None:
    for _ in range(5):
        status, body = await post(server, "v=0\r\n")
        assert 400 <= status < 500, body
    for session in server.registry:
        await session.wait_closed()
    async with asyncio.timeout(5):
        while server.engine.capacity().in_use:
            await asyncio.sleep(0.01)
    assert server.webrtc.legs == set()


async def test_drain_refuses_new_calls_and_is_not_ready(server: Server) -> None:
    await post(server)
    drain = asyncio.create_task(server.drain())
    await asyncio.sleep(0)
    status, body = await post(server)
    assert (status, body["code"]) == (503, "engine_draining")
    async with aiohttp.ClientSession() as http, http.get(f"{server.url}readyz") as response:
        assert response.status == 503
    await drain
    assert len(server.registry) == 0


async def test_second_signal_ends_a_long_drain_at_once() -> None:
    server = Server(settings(drain_s=3600))
    await server.start()
    await post(server)
    run = asyncio.create_task(server.run())
    await asyncio.sleep(0)
    server.request_stop()
    await asyncio.sleep(0.05)
    assert not run.done()
    server.request_stop()
    async with asyncio.timeout(10):
        await run
    assert server.webrtc.legs == set()


async def test_stop_leaves_no_thread_and_no_task_behind() -> None:
    before = {thread.name for thread in threading.enumerate()}
    server = Server(settings())
    await server.start()
    await post(server)
    await server.stop()
    await server.stop()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not [name for name in {thread.name for thread in threading.enumerate()} - before if "engine" in name]


async def test_last_line_of_the_log_says_that_the_server_has_stopped_and_whom_it_has_cut_off() -> None:
    with captured_logs() as logs:
        server = Server(settings())
        await server.start()
        await post(server)
        await server.stop()
        await server.stop()
    assert [entry["event"] for entry in logs].count("server stopped") == 1
    assert (logs[-1]["event"], logs[-1]["conversations_cut_off"]) == ("server stopped", 1)


async def test_server_that_never_started_does_not_say_that_it_stopped() -> None:
    with captured_logs() as logs:
        await Server(settings()).stop()
    assert "server stopped" not in [entry["event"] for entry in logs]


async def test_phone_line_is_told_as_others_are_told_it_and_scarce_ports_are_warned_of(tmp_path: Path) -> None:
    file = tmp_path / "rtc.toml"
    file.write_text('[sip]\nlisten = ["udp:0.0.0.0:0"]\nadvertise_ip = "203.0.113.7"\nrtp_ports = "20000-20001"\n')
    with captured_logs() as logs:
        server = Server(config.load({"engine": "echo", "slots": 2, "port": 0, "udp_port": 0}, file))
        await server.start()
        assert (server.phone_line or "").startswith("Phone line udp:203.0.113.7:0")
        await server.stop()
    assert "1 of the 2 calls" in entry_of(logs, "few_rtp_ports")["trouble"]


async def test_taken_port_is_a_clear_error_and_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = Server(settings(port=other.getsockname()[1]))
        with pytest.raises(ConfigError, match="--port"):
            await server.start()
        await server.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_default_voice_that_the_engine_lacks_is_found_at_the_start() -> None:
    server = Server(settings(voice="nobody"))
    with pytest.raises(ConfigError, match="nobody"):
        await server.start()
    await server.stop()


def test_unknown_engine_is_found_before_anything_starts() -> None:
    with pytest.raises(UnknownEngine, match="echo"):
        Server(settings(engine="ecko"))


OFFERS = sorted((Path(__file__).parent / "data" / "sdp").glob("*.sdp"))


async def test_every_offer_of_the_field_gets_an_answer_or_a_reason(server: Server) -> None:
    assert len(OFFERS) >= 27
    for path in OFFERS:
        status, body = await post(server, path.read_bytes().decode())
        if status == 201:
            assert body["sdp"].startswith("v=0\r\n") and "a=fingerprint:sha-256" in body["sdp"], path.name
            server.registry.get(body["id"]).close("test")
        else:
            assert status in (400, 422), (path.name, body)
            assert len(body["message"]) > 10 and body["code"], path.name
        for session in server.registry:
            await session.wait_closed()
    assert len(server.registry) == 0
    assert server.webrtc.legs == set()


@pytest.mark.soak
async def test_calls_that_come_and_go_leave_nothing_behind(server: Server) -> None:
    """500 in full, 50 otherwise."""
    rounds = 500 if os.environ.get("RTC_SOAK") else 50
    for _ in range(rounds):
        status, body = await post(server)
        assert status == 201
        session = server.registry.get(body["id"])
        session.close("test")
        await session.wait_closed()
    assert len(server.registry) == 0
    assert server.webrtc.legs == set()
    assert not server.webrtc.mux.by_ufrag and not server.webrtc.mux.by_address
    assert server.conductor.sessions == {}
    async with asyncio.timeout(5):
        while server.engine.capacity().in_use:
            await asyncio.sleep(0.01)


def test_dtx_is_a_setting_of_the_calls() -> None:
    assert Server(settings(dtx=True)).webrtc.config.dtx
    assert not Server(settings()).webrtc.config.dtx


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)])
def test_callers_are_local_where_the_web_server_listens_on_loopback(host: str, local: bool) -> None:
    assert Server(settings(host=host, auth="none")).webrtc.config.local_callers is local


async def test_taken_metrics_port_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = Server(settings(metrics_port=other.getsockname()[1]))
        with pytest.raises(ConfigError, match="--metrics-port"):
            await server.start()
        await server.stop()


async def test_compressed_body_is_never_inflated(server: Server) -> None:
    bomb = gzip.compress(b"[" * 10_000_000)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{server.url}v1/sessions", data=bomb, headers=headers) as response:
            assert response.status == 400
        async with http.post(f"{server.url}livez", data=bomb, headers=headers) as response:
            assert response.status == 405
    assert server.engine.capacity().in_use == 0


async def test_client_that_hangs_up_in_its_body_is_no_defect_of_ours(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = "127.0.0.1", int(server.url.rsplit(":", 1)[1].strip("/"))
    _, writer = await asyncio.open_connection(host, port)
    writer.write(b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n{")
    await writer.drain()
    await asyncio.sleep(0.1)
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.1)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_client_that_never_reads_does_not_hold_up_the_end(server: Server) -> None:
    host, port = "127.0.0.1", int(server.url.rsplit(":", 1)[1].strip("/"))
    writers = []
    for _ in range(3):
        _, writer = await asyncio.open_connection(host, port, limit=1)
        writer.write(b"GET /client.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
        writers.append(writer)
    await asyncio.sleep(0.2)
    async with asyncio.timeout(20):
        await server.stop()
    for writer in writers:
        writer.transport.abort()
