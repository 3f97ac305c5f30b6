"""The tool of docs/raw-audio.md works, and what the page says of limits is so."""

from __future__ import annotations

import asyncio
import re
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from rtc_server import config
from rtc_server.http.sockets import MAX_MESSAGE_BYTES, SocketLimits
from rtc_server.media.frames import SAMPLE_RATE
from rtc_server.server import Server
from rtc_server.transports.websocket.intake import READ_AHEAD_SAMPLES
from rtc_server.transports.websocket.leg import TAIL_S
from rtc_server.transports.websocket.outbox import AUDIO_SAMPLES, STALL_S
from rtc_server.transports.websocket.pcm import MAX_TEXT_CHARS, Open

PAGE = (Path(__file__).parents[2] / "docs" / "raw-audio.md").read_text()


@pytest.mark.parametrize("rate", [24_000, 48_000])
async def test_the_tool_says_a_file_and_writes_the_answer(rate: int, tmp_path: Path) -> None:
    (tmp_path / "talk.py").write_text(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0])
    tone = (8000 * np.sin(2 * np.pi * 440 * np.arange(rate // 2) / rate)).astype("<i2")
    with wave.open(str(tmp_path / "in.wav"), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(tone.tobytes())
    server = Server(config.load({"engine": "echo", "slots": 1, "port": 0, "udp_port": 0, "drain_s": 0.2}))
    await server.start()
    try:
        url = f"{server.url.replace('http', 'ws')}v1/audio/duplex"
        tool = await asyncio.create_subprocess_exec(sys.executable, "talk.py", url, "in.wav", "out.wav", cwd=tmp_path)
        assert await asyncio.wait_for(tool.wait(), 30) == 0
    finally:
        await server.stop()
    with wave.open(str(tmp_path / "out.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (rate, 1, 2)
        answer = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert len(answer) % (rate * 80 // 1000) == 0
    delay = 0 if rate == 24_000 else 2 * 64  # one filter each way
    heard = answer[delay : delay + len(tone)].astype(int)
    assert np.abs(heard - tone)[500:-500].max() < 50


def test_every_field_of_open_is_described() -> None:
    described = set(re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE))
    names = {name for cell in described for name in re.findall(r"`(\w+)`", cell)}
    assert set(Open.model_fields) - {"type"} <= names


def test_the_limits_are_those_of_the_code() -> None:
    limits = SocketLimits()
    assert f"| {MAX_MESSAGE_BYTES // 2**20} MiB; of text, {MAX_TEXT_CHARS} characters" in PAGE
    assert f"| {limits.open_s:g} s, and at most {limits.max_unopened} sockets" in PAGE
    assert f"although something waits | {STALL_S:g} s |" in PAGE
    assert f"| to hear the end, for a client that has said `close` and reads slowly | {TAIL_S:g} s |" in PAGE
    assert AUDIO_SAMPLES == SAMPLE_RATE
    read_ahead_s = READ_AHEAD_SAMPLES / SAMPLE_RATE
    assert f"| audio that waits for the engine | {1 + read_ahead_s:g} s (`input`), 1 s (`realtime`) |" in PAGE
    assert f"The server reads {read_ahead_s:g} seconds ahead" in PAGE
