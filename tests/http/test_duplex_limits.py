"""Who gets a conversation over the raw endpoint, and what clients may do to it without harm."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from aiohttp import ClientWebSocketResponse, WSMsgType

from rtc_server import config
from rtc_server.engine.stepper import FRAME_SAMPLES
from rtc_server.http.sockets import SocketLimits
from rtc_server.media.pcmformat import PcmDecoder
from rtc_server.server import Server
from rtc_server.transports.websocket import leg as leg_module
from rtc_server.transports.websocket import outbox as outbox_module
from tests.http.comings import come_and_go
from tests.http.conftest import KEY
from tests.http.rawtool import PATH, Tool, line, noise, through_int16, until

# ---- who is let in ---------------------------------------------------------------------------------------------------
from tests.logs import captured_logs


async def test_a_socket_that_never_opens_is_closed() -> None:
    async with line(limits=SocketLimits(open_s=0.1)) as world, world.socket() as tool:
        await tool.socket.send_str("MEDIA_START format:ulaw")
        assert await tool.until_closed() == 1008
        assert "open" in tool.messages[-1]["error"]
        assert world.engine.prompts == []


async def test_only_so_many_sockets_may_wait_with_nothing_to_say() -> None:
    async with (
        line(limits=SocketLimits(max_unopened=2)) as world,
        world.socket(),
        world.socket() as second,
        world.socket() as third,
    ):
        assert await third.until_closed() == 1013
        assert third.messages[0]["code"] == "too_many_half_open"
        await second.open()
        await second.until("ready")
        async with world.socket() as fourth:
            await fourth.finish()
            assert fourth.types == ["done"]
        await second.finish()


async def test_a_full_server_says_so_before_any_work() -> None:
    async with line(slots=1) as world, world.call() as tool:
        async with world.socket() as other:
            await other.open()
            assert await other.until_closed() == 1013
            assert other.messages[0]["code"] == "engine_full"
            assert "slots are in use" in other.close_reason
        assert len(world.engine.prompts) == 1
        await tool.finish()
        await until(lambda: world.engine.leases == [])
        async with world.call() as next_one:
            await next_one.finish()


async def test_a_draining_server_lets_nobody_in_and_says_goodbye() -> None:
    async with line() as world, world.call() as tool:
        world.house.admission.draining = True
        async with world.socket() as other:
            await other.open()
            assert await other.until_closed() == 1013
            assert other.messages[0]["code"] == "engine_draining"
        code, _ = await asyncio.gather(tool.until_closed(), world.house.registry.drain(0.05, "server_stopping"))
        assert code == 1012
        assert tool.messages[-1]["code"] == "server_stopping"


async def test_who_has_not_opened_yet_does_not_hold_up_the_end() -> None:
    async with line() as world, world.socket() as tool:
        code, _ = await asyncio.gather(tool.until_closed(), world.client.server.close())
        assert (code, tool.close_reason) == (1012, "the server is shutting down")


async def test_the_key_is_needed_before_the_upgrade() -> None:
    async with line(api_key=KEY) as world:
        assert (await world.client.get(PATH)).status == 401
        assert (await world.client.get(PATH, params={"token": KEY})).status == 400  # no upgrade was asked for
        async with world.client.ws_connect(f"{PATH}?token={KEY}") as socket:
            await Tool(socket).finish()
        assert (await world.client.get(PATH, headers={"Origin": "https://evil.example"})).status == 403


# ---- what goes wrong -------------------------------------------------------------------------------------------------

GARBAGE = ["", "{", "[]", '{"type":5}', "hello", '{"type":"input.append","data":"?"}', "\x00", "[" * 20_000]


async def test_garbage_is_answered_and_the_conversation_goes_on() -> None:
    pcm = noise(FRAME_SAMPLES)
    async with line() as world, world.socket() as tool:
        for text in GARBAGE:
            await tool.socket.send_str(text)
            await tool.until("error")
        await tool.open()
        await tool.until("ready")
        for text in GARBAGE:
            await tool.socket.send_str(text)
            await tool.until("error")
        await tool.say(type="nobody.knows")
        await tool.socket.send_bytes(b"")
        await tool.sound(pcm)
        await tool.finish()
        assert np.array_equal(tool.heard, through_int16(pcm))
        assert len(tool.of("error")) == 2 * len(GARBAGE)


@pytest.mark.parametrize("opened", [False, True], ids=["unopened", "opened"])
@pytest.mark.parametrize("what", ["text", "ping", "pong"])
async def test_a_flood_of_small_messages_leaves_others_their_turn(what: str, opened: bool) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with line() as world, world.socket() as tool:
        if opened:
            await tool.open()
            await tool.until("ready")
        other = asyncio.create_task(count_turns())
        for _ in range(3000):
            match what:
                case "text":
                    await tool.socket.send_str("HELLO")
                case "ping":
                    await tool.socket.ping(b"HELLO")
                case "pong":
                    await tool.socket.pong(b"HELLO")
        began = turns
        await tool.finish()
        assert turns - began > 2000
        other.cancel()


@pytest.mark.parametrize("opened", [False, True], ids=["first message", "later message"])
async def test_a_defect_of_ours_is_no_goodbye_of_the_client(opened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: PcmDecoder, data: bytes) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(PcmDecoder, "feed", broken)
    with captured_logs() as entries:
        async with line() as world, world.socket() as tool:
            if opened:
                await tool.open()
                await tool.until("ready")
            await tool.sound(noise(FRAME_SAMPLES))
            assert await tool.until_closed() == 1011
            assert "mistake" in tool.messages[-1]["error"]
    assert [entry["reason"] for entry in entries if entry["event"] == "session closed"] == ["internal_error"]


async def test_samples_that_are_no_numbers_do_no_harm() -> None:
    pcm = noise(2 * FRAME_SAMPLES)
    pcm[5:8] = np.nan, np.inf, -np.inf
    async with line() as world, world.call() as tool:
        await tool.sound(pcm)
        await tool.finish()
        assert np.isfinite(tool.heard).all()
        assert np.array_equal(tool.heard[8:], through_int16(pcm[8:]))


async def test_a_message_that_is_too_long_ends_the_call() -> None:
    async with line() as world, world.call() as tool:
        sending = asyncio.create_task(tool.socket.send_bytes(bytes(4 * 1024 * 1024 + 1)))
        assert await tool.until_closed() == 1009
        await asyncio.gather(sending, return_exceptions=True)


async def test_who_goes_while_the_prompt_is_worked_on_frees_the_slot_at_once() -> None:
    async with line(slots=1) as world:
        world.engine.ready_slots = False
        for drop in (True, False):
            async with world.socket() as tool:
                await tool.open(events=True)
                await tool.until("session.created")
                if drop:
                    tool.drop()
            await until(lambda: world.engine.leases == [])
        world.engine.ready_slots = True
        async with world.call() as tool:
            await tool.finish()


async def test_who_goes_without_a_token_is_not_waited_for() -> None:
    async with line() as world:
        async with world.call() as tool:
            await tool.sound(noise(60 * FRAME_SAMPLES))
            await tool.until_heard(FRAME_SAMPLES)
            tool.drop()
        await until(lambda: not len(world.house.registry))


@pytest.mark.parametrize("pace", ["input", "realtime"])
async def test_who_does_not_read_is_let_go(pace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leg_module, outbox_module):
        monkeypatch.setattr(module, "STALL_S", 0.2)
    async with line() as world, world.call(pace=pace, rate=48_000) as tool:
        sending = asyncio.create_task(tool.sound(noise(10 * 48_000)))
        await until(lambda: not len(world.house.registry))
        assert len(world.stepped()) < 10 * 24_000
        await asyncio.gather(sending, return_exceptions=True)


@pytest.mark.soak
@pytest.mark.parametrize("when", ["unopened", "opened", "in mid-file"])
async def test_calls_that_come_and_go_leave_nothing_behind(when: str) -> None:
    server = Server(config.load({"engine": "echo", "slots": 4, "port": 0, "udp_port": 0, "drain_s": 0.1}))

    async def call(socket: ClientWebSocketResponse, number: int) -> None:
        if when != "unopened":
            await socket.send_str('{"type":"open"}')
        if when == "in mid-file":
            await socket.send_bytes(bytes(50 * FRAME_SAMPLES * 4))
            while number % 2 and (await socket.receive(timeout=5)).type is not WSMsgType.BINARY:
                pass

    await server.start()
    try:
        await come_and_go(server, PATH[1:], call)
    finally:
        await server.stop()
