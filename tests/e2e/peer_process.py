"""A caller that is a program of its own: one command a line goes in, one line of JSON comes out."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np

from tests.e2e.speech import Pcm

ANSWER_WITHIN_S = 30.0
LONGEST_LINE_BYTES = 32 << 20


class PeerProcess:
    """Answers to commands are dictionaries; one with ``error`` fails the test with its text."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        async with asyncio.timeout(ANSWER_WITHIN_S):
            while True:
                line = await self._process.stdout.readline()
                assert line, f"the caller ended at {command!r}"
                if line.startswith(b"{"):  # libraries print as well
                    break
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, f"{command}: {answer['error']}"
        return answer

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@contextlib.asynccontextmanager
async def running_peer(command: Sequence[str], environment: dict[str, str] | None = None) -> AsyncIterator[PeerProcess]:
    """Start a caller; at the end it is gone, whatever happened."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=LONGEST_LINE_BYTES,
        env=environment,
    )
    peer = PeerProcess(process)
    try:
        yield peer
    finally:
        await peer.kill()


def pcm_of(text: str) -> Pcm:
    """Little-endian s16 in base64."""
    return np.frombuffer(base64.b64decode(text), "<i2").astype(np.float32) / 32768


def loudest_hz(pcm: Pcm, rate_hz: int) -> float:
    """Frequency of the highest peak."""
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(pcm.size)))
    return float(np.argmax(spectrum)) * rate_hz / pcm.size


def audible_share(pcm: Pcm, rate_hz: int, window_s: float = 0.02) -> float:
    """Share of windows that are not silent, 0..1."""
    size = round(rate_hz * window_s)
    windows = pcm[: pcm.size // size * size].reshape(-1, size)
    return float(np.mean(np.sqrt(np.mean(np.square(windows), axis=1)) > 0.01))
