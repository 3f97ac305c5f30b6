"""A phone, a browser and a program talk with one engine at once, and each hears only its own conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from aiohttp import WSMsgType

from rtc_server.engine.stepper import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE
from tests.e2e.conftest import Caller, Serve
from tests.e2e.listen import Recording
from tests.e2e.server import ServerProcess
from tests.e2e.sip.livephone import share_at
from tests.e2e.sip.phoneline import PhoneLine
from tests.e2e.speech import RATE_HZ, Pcm, resampled, tone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

PHONE_HZ, BROWSER_HZ, PROGRAM_HZ = 700.0, 1100.0, 1700.0
"""No multiple of one is near another."""
TALKS_S = 3.0
NONE_OF_IT = 1e-4
"""-40 dB: what a hole that a busy machine tears into one tone spreads over the others."""


async def test_a_phone_a_browser_and_a_program_do_not_hear_each_other(
    serve: Serve, caller: Caller, tmp_path: Path
) -> None:
    line = PhoneLine(tmp_path)
    server = await serve("echo", 3, *line.flags)
    browser = caller(server, tone(60, BROWSER_HZ))
    async with line.phone() as phone:
        await asyncio.gather(browser.connect(), phone.call(tone(60, PHONE_HZ)))
        by_program = await over_socket(server, tone(TALKS_S, PROGRAM_HZ))
        await asyncio.sleep(0.5)
        heard = {
            PHONE_HZ: middle(phone.heard()),
            BROWSER_HZ: middle(browser.heard()),
            PROGRAM_HZ: middle(by_program),
        }
        await phone.hang_up()
    await browser.close()
    for own_hz, recording in heard.items():
        assert recording.loudness() > 0.05, own_hz
        assert share_at(recording, own_hz) > 0.9, own_hz
        for other_hz in heard.keys() - {own_hz}:
            assert share_at(recording, other_hz) < NONE_OF_IT, (own_hz, other_hz)


def middle(heard: Recording) -> Recording:
    """One and a half seconds of when all three were talking."""
    return heard.between(heard.end_s - 2.3, heard.end_s - 0.8)


async def over_socket(server: ServerProcess, says: Pcm) -> Recording:
    """Raw samples, as fast as time passes."""
    frames = resampled(says, RATE_HZ, SAMPLE_RATE)
    frames = frames[: len(frames) // FRAME_SAMPLES * FRAME_SAMPLES].astype("<f4").reshape(-1, FRAME_SAMPLES)
    heard = b""
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{server.url}/v1/audio/duplex") as socket:
        await socket.send_json({"type": "open", "pace": "realtime"})

        async def speak() -> None:
            for frame in frames:
                await socket.send_bytes(frame.tobytes())
                await asyncio.sleep(FRAME_S)
            await socket.send_json({"type": "close"})

        speaking = asyncio.create_task(speak())
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                heard += message.data
        await speaking
    return Recording(np.frombuffer(heard, "<f4").astype(np.float32), SAMPLE_RATE)
