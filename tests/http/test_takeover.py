"""The whole house with stock aiortc clients: a second POST takes the call over, and the engine forgets nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server import config
from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, FloatFrames, SessionPrompt, StepOutput
from rtc_server.server import Server
from rtc_server.session.session import State
from tests.transports.webrtc.callers import Caller, let_aioice_use_loopback
from tests.transports.webrtc.waiting import eventually

pytestmark = pytest.mark.timeout(60)


class Counting(EchoStepper):
    """Says in each frame how many it has heard: its memory."""

    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        self._heard = np.zeros(slots, np.int64)

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        self._heard[slot] = 0

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        self._heard += live
        text = [f" {count}" if alive else None for count, alive in zip(self._heard, live, strict=True)]
        return StepOutput(output.pcm, text, output.heard)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    let_aioice_use_loopback(monkeypatch)
    flags = {"engine": f"{__name__}:Counting", "slots": 1, "port": 0, "udp_port": 0, "drain_s": 0.2}
    server = Server(config.load(flags))
    await server.start()
    yield server
    await server.stop()
    assert server.webrtc.legs == set()


def told(caller: Caller) -> list[dict[str, Any]]:
    """Its events, in order."""
    values = [json.loads(message) for message in list(caller.messages)]
    return [event for value in values for event in (value if isinstance(value, list) else [value])]


def counts(caller: Caller) -> list[int]:
    """What it was told, also where one event has the words of two frames: a tick may come late on a busy machine."""
    return words_of(told(caller))


def words_of(events: list[dict[str, Any]]) -> list[int]:
    return [int(word) for event in events if event["type"] == "response.delta" for word in event["data"].split()]


async def connect(server: Server, caller: Caller, **more: Any) -> dict[str, Any]:
    send = {"sdp": await caller.offer(), "type": "offer", **more}
    async with aiohttp.ClientSession() as http, http.post(f"{server.url}v1/sessions", json=send) as response:
        body: dict[str, Any] = await response.json()
        assert response.status == 201, body
    await caller.answer(body["sdp"])
    return body


async def talk(caller: Caller) -> None:
    """A second of conversation, from here on."""
    before = len(counts(caller))
    await eventually(lambda: len(counts(caller)) >= before + 12)


@pytest.mark.parametrize("leaves", [True, False], ids=["after it left", "while it still talks"])
async def test_a_second_post_takes_the_call_over_with_the_models_memory(server: Server, leaves: bool) -> None:
    old, new = Caller(), Caller()
    try:
        body = await connect(server, old)
        await talk(old)
        session = server.registry.get(body["id"])
        if leaves:
            await old.connection.close()
            await eventually(lambda: session.state is State.DEGRADED)
            frames = session.frames
            await asyncio.sleep(0.5)
            assert session.frames <= frames + 1, "the model stands still; one frame may have been at the engine"
        last = told(old)[-1]["seq"]
        again = await connect(server, new, resume=body["resume_token"], last_event=last)
        assert (again["id"], again["resumed"]) == (body["id"], True)
        await talk(new)

        numbers = counts(old) + counts(new)
        assert sorted(set(numbers)) == list(range(1, numbers[-1] + 1)), "no frame was stepped twice or forgotten"
        assert counts(new)[0] > 12
        kinds = [event["type"] for event in told(new)]
        assert kinds[0] == "session.created" and "session.resumed" in kinds and "response.created" not in kinds
        seqs = [event["seq"] for event in told(new)]
        assert seqs == sorted(set(seqs))
        await eventually(lambda: len(new.heard) > 25)
        if not leaves:
            await eventually(lambda: told(old)[-1]["type"] == "session.ended")
            assert told(old)[-1]["reason"] == "replaced"
        assert session.leg is not None and len(server.webrtc.legs) == 1
        assert server.engine.capacity().in_use == 1
    finally:
        await old.close()
        await new.close()


async def test_a_conversation_goes_from_raw_audio_to_webrtc_and_back(server: Server) -> None:
    caller, frame = Caller(), bytes(4 * FRAME_SAMPLES)
    async with aiohttp.ClientSession() as http:

        async def raw(word: int, **more: Any) -> list[dict[str, Any]]:
            """The events of a socket on which eight frames were said, up to this word."""
            heard: list[dict[str, Any]] = []
            async with http.ws_connect(f"{server.url}v1/audio/duplex") as socket:
                await socket.send_json({"type": "open", "events": True, **more})
                await socket.send_bytes(frame * 8)
                while word not in words_of(heard):
                    message = await socket.receive(timeout=10)
                    if message.type is aiohttp.WSMsgType.TEXT:
                        heard.append(json.loads(message.data))
            return heard

        try:
            first = await raw(8)
            (created,) = [event for event in first if event["type"] == "session.created"]
            session = server.registry.get(created["id"])
            body = await connect(server, caller, resume=created["resume_token"], last_event=first[-1]["seq"])
            assert (body["id"], body["resumed"]) == (session.id, True)
            await talk(caller)
            await caller.connection.close()
            await eventually(lambda: session.state is State.DEGRADED)
            await asyncio.sleep(0.2)  # one frame may have been at the engine
            frames = session.frames
            last = await raw(frames + 8, resume=body["resume_token"], last_event=told(caller)[-1]["seq"])
            numbers = [words_of(events) for events in (first, told(caller), last)]
            assert sorted(itertools.chain(*numbers)) == list(range(1, frames + 9))
            assert [own[0] for own in numbers] == [1, 9, numbers[1][-1] + 1]
            assert "session.resumed" in [event["type"] for event in last]
            session.close("test")
            await session.wait_closed()
        finally:
            await caller.close()


async def test_a_caller_who_does_not_come_back_gives_its_slot_back(monkeypatch: pytest.MonkeyPatch) -> None:
    let_aioice_use_loopback(monkeypatch)
    flags = {"engine": "echo", "slots": 1, "port": 0, "udp_port": 0, "resume_s": 1.5}
    server = Server(config.load(flags))
    await server.start()
    caller = Caller()
    try:
        body = await connect(server, caller)
        session = server.registry.get(body["id"])
        await eventually(lambda: session.state is State.LIVE)
        await caller.close()
        await eventually(lambda: session.state is State.DEGRADED)
        assert server.engine.capacity().in_use == 1
        await eventually(lambda: server.engine.capacity().in_use == 0)
        assert session.state is State.CLOSED
    finally:
        await caller.close()
        await server.stop()
