"""Whatever strangers and a broken trunk send to the SIP port, who talks on the phone does not notice."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from rtc_server.media.rtp import write_packet
from tests.e2e.conftest import Serve
from tests.e2e.server import ServerProcess
from tests.e2e.sip.hostile import good_invite, hostile_datagrams
from tests.e2e.sip.house import House, brisk_house
from tests.e2e.sip.lateness import Lateness
from tests.e2e.sip.livephone import LivePhone, share_at
from tests.e2e.sip.phoneline import NUMBER, PhoneLine
from tests.e2e.speech import tone
from tests.logs import assert_no_errors, captured_logs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

TRUNK, STRANGER = "127.0.0.1", "127.0.0.2"
DATAGRAMS = 2000
SEED = 20_260_801
FLOOD = 3000
TONE_HZ = 700.0
LONGEST_GAP_S = 0.2
CONNECTIONS = 36
MOST_LOG_LINES = 200


async def test_a_live_call_goes_on_under_attack(serve: Serve, machine: Lateness, tmp_path: Path) -> None:
    line = PhoneLine(tmp_path)
    server = await serve("echo", 4, *line.flags)
    source = random.Random(SEED)
    async with line.phone() as phone:
        await phone.call(tone(60, TONE_HZ))
        await asyncio.sleep(1)
        since_s = asyncio.get_running_loop().time()
        quiet_lines = len(server.log.splitlines())
        with contextlib.ExitStack() as stack:
            stranger, trunk = (stack.enter_context(udp(host)) for host in (STRANGER, TRUNK))
            connections = [stack.enter_context(tcp(line, kind, source)) for kind in range(CONNECTIONS)]
            slow = asyncio.create_task(trickle(connections[:10], good_invite(NUMBER, source)))
            await shoot(stranger, line.address, hostile_datagrams(DATAGRAMS // 2, source, NUMBER))
            await shoot(trunk, line.address, hostile_datagrams(DATAGRAMS // 2, source, NUMBER))
            await shoot(stranger, line.address, (good_invite(NUMBER, source) for _ in range(FLOOD)))
            await shoot(stranger, phone.remote, (alien_audio(number) for number in range(300)))
            await shoot(stranger, (phone.remote[0], phone.remote[1] + 1), (source.randbytes(60) for _ in range(300)))
            await in_dialog_request(phone)
            slow.cancel()
            with pytest.raises(BlockingIOError):
                stranger.recv(2048)  # nobody tells a stranger that there is something here
        await asyncio.sleep(0.5)
        until_s = asyncio.get_running_loop().time()

        await hang_up_others(server, phone)
        assert await server.slots_in_use() == 1
        phone.assert_whole()
        gaps_s = phone.gaps_s(since_s)
        assert gaps_s.max() < LONGEST_GAP_S + machine.most_s(since_s), (gaps_s.max(), machine.most_s(since_s))
        heard = phone.heard().between(since_s, until_s)
        # Nobody else's sound, and no silence; who attacks shares the processor, which may tear holes.
        assert share_at(heard, TONE_HZ) > 0.9
        assert np.median(heard.envelope(0.1)) > 0.05
        async with line.phone() as another:
            another.send("OPTIONS")
            await another.until("200")
        await phone.hang_up()
    lines = len(server.log.splitlines()) - quiet_lines
    assert lines < MOST_LOG_LINES


async def test_hostile_messages_leave_nothing_behind(tmp_path: Path) -> None:
    source = random.Random(SEED + 1)
    async with brisk_house(tmp_path) as house:
        with captured_logs() as logs:
            await hostile_messages_come_and_go(house, source)
        assert_no_errors(logs)


async def hostile_messages_come_and_go(house: House, source: random.Random) -> None:
    with contextlib.ExitStack() as stack:
        stranger, trunk = (stack.enter_context(udp(host)) for host in (STRANGER, TRUNK))
        for kind in range(CONNECTIONS):
            stack.enter_context(tcp(house.line, kind, source))
        await shoot(stranger, house.line.address, hostile_datagrams(DATAGRAMS // 2, source, NUMBER))
        await shoot(trunk, house.line.address, hostile_datagrams(DATAGRAMS // 2, source, NUMBER))
        await asyncio.sleep(0.5)
    for call in house.agent.calls:
        call.hangup()
    await house.wait_nothing_left()


async def in_dialog_request(phone: LivePhone) -> None:
    phone.send("OPTIONS")
    await phone.until("200")


async def hang_up_others(server: ServerProcess, phone: LivePhone) -> None:
    """Some mutants are calls. Nobody acknowledges them."""
    _, body = await server.get("/v1/calls")
    first, *others = sorted((call for call in body["calls"] if call["state"] != "ended"), key=lambda c: -c["lasted_s"])
    async with aiohttp.ClientSession() as http:
        for call in others:
            async with http.post(f"{server.url}/v1/calls/{call['id']}/hangup") as response:
                assert response.status == 200
    await server.wait_slots_in_use(1)
    assert first["end_reason"] is None


# ---- weapons ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def udp(host: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((host, 0))
        sender.setblocking(False)
        yield sender


async def shoot(sender: socket.socket, target: tuple[str, int], datagrams: Iterable[bytes]) -> None:
    """As fast as the other tasks of this test allow."""
    for number, datagram in enumerate(datagrams):
        with contextlib.suppress(BlockingIOError):
            sender.sendto(datagram, target)
        if number % 10 == 0:
            await asyncio.sleep(0.001)


def alien_audio(number: int) -> bytes:
    return write_packet(0, number, 160 * number, 0xBAD, bytes(range(160)))


@contextlib.contextmanager
def tcp(line: PhoneLine, kind: int, source: random.Random) -> Iterator[socket.socket]:
    """A connection that says something that has no end, makes no sense, or is gone at once."""
    message = good_invite(NUMBER, source)
    openings = (
        message[: len(message) // 2],
        message.replace(b"Content-Length: ", b"Content-Length: 9", 1),
        source.randbytes(1000),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + source.randbytes(200),
        b"",
        b"\r\n" * 500,
        b"OPTIONS sip:a@b SIP/2.0\r\nl: -1\r\n\r\n" * 20,
        good_invite("999", source) * 50,
    )
    with socket.create_connection(line.address, source_address=((TRUNK, STRANGER)[kind % 2], 0)) as connection:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(openings[kind % len(openings)])
        if kind % 3 == 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
        yield connection


async def trickle(connections: list[socket.socket], message: bytes) -> None:
    """A byte now and then."""
    for place in range(len(message)):
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.send(message[place : place + 1])
        await asyncio.sleep(0.05)
