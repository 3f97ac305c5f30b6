"""The real engine behind the raw endpoint, on tiny random weights: a call and an offline run say the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import numpy as np
import pytest
from aiohttp import WSMsgType
from numpy.typing import NDArray

from rtc_server import config
from rtc_server.engine.registry import EngineOptions, create
from rtc_server.engine.stepper import FRAME_SAMPLES, FloatFrames, SessionPrompt, StepOutput
from rtc_server.launch import engine_options
from rtc_server.media.pcm import to_int16
from rtc_server.media.wav import read_wav
from rtc_server.offline import run as offline
from rtc_server.offline.run import Pair
from rtc_server.server import Server
from tests.e2e.speech import chatter, resampled
from tests.e2e.tapped import SteadyPersonaPlex
from tests.engine.personaplex.tiny import tiny_checkpoint, write_wav

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

PROMPT = SessionPrompt(persona="the", voice="BASS", seed=11)
FRAMES = 20


class RememberingPersonaPlex(SteadyPersonaPlex):
    """Keeps the tokens of every live slot."""

    said: ClassVar[list[list[int]]] = []

    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots, options)
        self.said.clear()

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = super().step(pcm, live)
        assert output.tokens is not None
        self.said.extend(output.tokens[slot].tolist() for slot in np.flatnonzero(live))
        return output


async def test_the_raw_endpoint_gives_the_tokens_and_the_sound_of_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    checkpoint = tiny_checkpoint(tmp_path / "tiny")
    pcm = resampled(chatter(4), 48_000, 24_000)[: FRAMES * FRAME_SAMPLES - 777]
    write_wav(tmp_path / "in.wav", pcm)
    sound = read_wav(tmp_path / "in.wav")
    flags: dict[str, Any] = {"engine": f"{__name__}:RememberingPersonaPlex", "slots": 2, "model": str(checkpoint)}
    flags |= {"device": "cpu", "threads": 1, "persona": "hi", "engine_process": "off", "port": 0, "udp_port": 0}
    settings = config.load(flags)

    server = Server(settings)
    await server.start()
    try:
        heard, words = await call(server, sound)
    finally:
        await server.stop()
    said = list(RememberingPersonaPlex.said)

    pairs = [Pair(tmp_path / "in.wav", tmp_path / "out.wav", PROMPT)]
    build = create(settings.engine.engine, engine_options(settings.engine))
    assert offline.run(build, pairs, tmp_path / "out.jsonl") == []
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(said) == len(lines) == FRAMES
    assert said == RememberingPersonaPlex.said
    assert len({tuple(frame[9:]) for frame in said}) > 10, "the caller's voice did not reach the engine"
    assert np.array_equal(heard[: len(sound)], read_wav(tmp_path / "out.wav"))
    assert words == [line["text"] for line in lines if line["text"]]


async def test_a_conversation_that_outlives_the_context_window_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    flags: dict[str, Any] = {
        "engine": f"{__name__}:RememberingPersonaPlex",
        "slots": 1,
        "max_context": 40,
        "persona": "hi",
    }
    flags |= {"device": "cpu", "threads": 1, "engine_process": "off", "port": 0, "udp_port": 0}
    server = Server(config.load(flags | {"model": str(tiny_checkpoint(tmp_path / "tiny"))}))
    frames = 2 * 40 + 3
    sound = to_int16(resampled(chatter(8), 48_000, 24_000)[: frames * FRAME_SAMPLES])
    await server.start()
    try:
        heard, _ = await call(server, sound)
        async with asyncio.timeout(2):
            while server.engine.capacity().in_use:
                await asyncio.sleep(0.02)
    finally:
        await server.stop()
    assert len(heard) == len(sound)
    assert len({tuple(frame[9:]) for frame in RememberingPersonaPlex.said[-30:]}) > 10, "it stands still"


async def call(server: Server, sound: NDArray[np.int16]) -> tuple[NDArray[np.int16], list[str]]:
    """All of it at once, as a tool does that has a file. What it hears, and the words."""
    heard, words = b"", []
    url = f"{server.url}v1/audio/duplex"
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
        asked = {"persona": PROMPT.persona, "voice": f"{PROMPT.voice}.wav", "seed": PROMPT.seed, "format": "s16"}
        await socket.send_json({"type": "open", **asked})
        await socket.send_bytes(sound.astype("<i2").tobytes())
        await socket.send_json({"type": "close"})
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                heard += message.data
            elif (told := json.loads(message.data))["type"] == "text":
                words.append(told["text"])
        assert told == {"type": "done"}
    return np.frombuffer(heard, "<i2"), words
