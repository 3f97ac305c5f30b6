"""When there is no room, and when the server is about to end: each caller is told in its own way, at once, and nobody
who talks is disturbed."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSMsgType

from tests.e2e.conftest import Caller, Serve
from tests.e2e.listen import Recording
from tests.e2e.server import ServerProcess
from tests.e2e.sip.lateness import Lateness
from tests.e2e.sip.livephone import LivePhone, share_at
from tests.e2e.sip.patientecho import PatientEcho
from tests.e2e.sip.phoneline import RINGS, PhoneLine, answered_call, call_feed
from tests.e2e.speech import silence, tone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

AT_ONCE_S = 4.0
"""Rather than when a transaction or a bell times out; a busy machine may need longer than it takes."""
LONGEST_GAP_S = 0.2
TONE_HZ = 700.0
CALLEE = "+15550123"
CHAT_ERROR = 5
"""Kind of message on the socket of Moshi's clients."""
TRY_AGAIN_LATER = 1013
DRAIN_S = 2.0


async def test_a_full_server_tells_everybody_in_their_own_way_and_disturbs_nobody(
    serve: Serve, caller: Caller, machine: Lateness, tmp_path: Path
) -> None:
    line = PhoneLine(tmp_path)
    server = await serve("echo", 2, *line.flags)
    browser = caller(server, tone(60, TONE_HZ))
    async with line.phone() as phone:
        await asyncio.gather(browser.connect(), phone.call(tone(60, TONE_HZ)))
        await asyncio.sleep(1)
        before_s = asyncio.get_running_loop().time()
        for _ in range(3):
            async with asyncio.timeout(AT_ONCE_S), asyncio.TaskGroup() as refused:
                refused.create_task(phone_is_refused(line, retry_after_s="5"))
                refused.create_task(http_is_refused(server, "/v1/sessions", {"sdp": "v=0", "type": "offer"}))
                refused.create_task(http_is_refused(server, "/v1/calls", {"to": CALLEE}))
                refused.create_task(moshi_client_is_refused(server))
                refused.create_task(raw_socket_is_refused(server))
        await asyncio.sleep(0.5)
        after_s = asyncio.get_running_loop().time()
        assert_undisturbed(phone, before_s, after_s, machine)
        assert_steady(browser.heard().between(before_s, after_s))
        assert await server.slots_in_use() == 2
        await phone.hang_up()


async def test_without_a_free_rtp_port_a_caller_is_refused_and_takes_no_slot(
    serve: Serve, machine: Lateness, tmp_path: Path
) -> None:
    line = PhoneLine(tmp_path, rtp_ports=2)
    server = await serve("echo", 3, *line.flags)
    async with line.phone() as phone:
        await phone.call(tone(60, TONE_HZ))
        await asyncio.sleep(1)
        before_s = asyncio.get_running_loop().time()
        for _ in range(3):
            await phone_is_refused(line, retry_after_s="5")
        assert await server.slots_in_use() == 1
        await asyncio.sleep(0.5)
        assert_undisturbed(phone, before_s, asyncio.get_running_loop().time(), machine)
        await phone.hang_up()


async def test_sigterm_ends_phone_calls_in_order(serve: Serve, machine: Lateness, tmp_path: Path) -> None:
    engine = f"{PatientEcho.__module__}:{PatientEcho.__name__}"
    line = PhoneLine(tmp_path)
    server = await serve(engine, 8, "--drain-s", str(DRAIN_S), *line.flags)
    async with line.phone() as phone, line.phone() as leaving, line.phone() as silent, line.phone(RINGS) as ringing:
        await phone.call(tone(60, TONE_HZ))
        async with call_feed(server.url, await answered_call(server)) as feed:
            await asyncio.gather(leaving.call(), silent.call())
            silent.mute = True
            ringing.invite(ringing.offer)
            await ringing.until("180")

            server.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(AT_ONCE_S):
                while (await server.get("/readyz"))[0] != 503:
                    await asyncio.sleep(0.02)
            since_s = asyncio.get_running_loop().time()
            await phone_is_refused(line, retry_after_s="30")
            await probe_is_refused(line)
            await http_is_refused(server, "/v1/calls", {"to": CALLEE})
            for method, body in (("OPTIONS", ""), ("INVITE", phone.offer), ("UPDATE", "")):
                phone.send(method, body)
                await phone.until("200")
                if method == "INVITE":
                    phone.ack()
            await leaving.hang_up()
            await asyncio.sleep(0.5)
            assert_undisturbed(phone, since_s, asyncio.get_running_loop().time(), machine)

            await asyncio.gather(phone.until("BYE"), silent.until("BYE"), ringing.until("503"))
            ringing.ack_refusal()
            assert "Q.850;cause=" in (phone.last_request("BYE").headers.get("Reason") or "")
            assert (await feed.until("ended"))["reason"] == "server_stopping"
        assert await server.stop() == 0
    lasted_s = asyncio.get_running_loop().time() - since_s
    assert DRAIN_S - 0.5 < lasted_s < DRAIN_S + 6


# ---- who is refused --------------------------------------------------------------------------------------------------


async def phone_is_refused(line: PhoneLine, retry_after_s: str) -> None:
    async with line.phone() as phone:
        phone.invite(phone.offer)
        assert await phone.until("180", "200", "503", within_s=AT_ONCE_S) == "503"
        phone.ack_refusal()
        assert phone.last.headers.get("Retry-After") == retry_after_s


async def probe_is_refused(line: PhoneLine) -> None:
    async with line.phone() as phone:
        phone.send("OPTIONS")
        assert await phone.until("200", "503", within_s=AT_ONCE_S) == "503"
        assert phone.last.headers.get("Retry-After") == "30"


async def http_is_refused(server: ServerProcess, path: str, body: dict[str, str]) -> None:
    async with aiohttp.ClientSession() as http, http.post(server.url + path, json=body) as response:
        assert response.status == 503, await response.text()
        assert int(response.headers["Retry-After"]) > 0


async def moshi_client_is_refused(server: ServerProcess) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{server.url}/api/chat") as socket:
        message = await socket.receive()
        assert message.type is WSMsgType.BINARY and message.data[0] == CHAT_ERROR
        assert b"slots are in use" in message.data
        await socket.receive()
        assert socket.close_code == TRY_AGAIN_LATER


async def raw_socket_is_refused(server: ServerProcess) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{server.url}/v1/audio/duplex") as socket:
        await socket.send_json({"type": "open"})
        assert (await socket.receive_json())["type"] == "error"
        await socket.receive()
        assert socket.close_code == TRY_AGAIN_LATER


# ---- who is not disturbed --------------------------------------------------------------------------------------------


def assert_undisturbed(phone: LivePhone, start_s: float, end_s: float, machine: Lateness) -> None:
    """Of its packets none is missing, none is late, and they are full of the tone."""
    phone.assert_whole()
    gaps_s = phone.gaps_s(start_s)
    assert gaps_s.max() < LONGEST_GAP_S + machine.most_s(start_s), (gaps_s.max(), machine.most_s(start_s))
    assert_steady(phone.heard().between(start_s, end_s))


def assert_steady(heard: Recording) -> None:
    """The tone, without a hole as long as a gap may be."""
    assert len(heard.pcm) > len(silence(0.4)) // 6
    assert share_at(heard, TONE_HZ) > 0.9
    assert heard.envelope(LONGEST_GAP_S).min() > 0.05
