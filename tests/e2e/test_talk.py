"""``rtc-server talk`` calls ``rtc-server serve``, over both sockets at once."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import wave
from pathlib import Path

import aiohttp
import numpy as np
import pytest

from rtc_server.media.wav import read_wav
from tests.e2e.conftest import Serve
from tests.e2e.listen import Recording, best_lag
from tests.e2e.server import ROOT
from tests.e2e.speech import RATE_HZ, said

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]


async def talk(url: str, protocol: str, source: Path, target: Path) -> tuple[int, str]:
    """Exit status, and what a person reads."""
    command = [sys.executable, "-m", "rtc_server", "talk", "--url", url, "--protocol", protocol]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--in", str(source), "--out", str(target)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_a_file_comes_back_over_both_sockets(serve: Serve, tmp_path: Path) -> None:
    speech = said("03_barge_in", 0)[: 2 * RATE_HZ : 2]
    with wave.open(str(tmp_path / "in.wav"), "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes((speech * 32767).astype("<i2").tobytes())
    server = await serve("echo", 2)
    protocols = ("pcm", "moshi")
    ends = await asyncio.gather(
        *(talk(server.url, name, tmp_path / "in.wav", tmp_path / f"{name}.wav") for name in protocols)
    )
    assert [status for status, _ in ends] == [0, 0]

    sent = read_wav(tmp_path / "in.wav")
    exact = read_wav(tmp_path / "pcm.wav")
    assert np.array_equal(exact[: len(sent)], sent)
    assert len(exact) - len(sent) < 1920
    coded = read_wav(tmp_path / "moshi.wav").astype(np.float32) / 32768
    _, fit = best_lag(Recording(speech, 24_000), Recording(coded, 24_000))
    assert fit > 0.7  # a hole of a busy machine costs some

    await server.wait_slots_in_use(0)
    async with contextlib.AsyncExitStack() as others:
        http = await others.enter_async_context(aiohttp.ClientSession())
        for _ in range(2):
            other = await others.enter_async_context(http.ws_connect(f"{server.url}/v1/audio/duplex"))
            await other.send_json({"type": "open", "pace": "realtime"})
        await server.wait_slots_in_use(2)
        status, told = await talk(server.url, "auto", tmp_path / "in.wav", tmp_path / "third.wav")
        assert status == 1
        assert "takes no call now" in told and "slots" in told
