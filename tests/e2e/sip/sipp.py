"""SIPp: a phone, or thirty of them, that do what a scenario says and end with what went wrong."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from rtc_server.media.g711 import G711Encoder
from tests.e2e.sip.ports import free_ports
from tests.e2e.sip.scenarios import VOICE
from tests.e2e.sip.sound import voice

MEDIA_PORTS_PER_CALL = 4
_SAYS_S = 3.0
_DOCUMENT = '<?xml version="1.0" encoding="ISO-8859-1"?>\n<scenario name="{name}">\n{steps}\n</scenario>\n'


class Sipp:
    """Runs scenarios in a folder of its own."""

    def __init__(self, directory: Path) -> None:
        program = shutil.which("sipp")
        if program is None:
            pytest.skip("no sipp here: make peers")
        self._program = program
        self._directory = directory
        self._numbers = itertools.count(1)
        directory.mkdir(exist_ok=True)
        pcm = voice(_SAYS_S, 24_000).reshape(-1, 480)
        encoder = G711Encoder("PCMU")
        (directory / VOICE).write_bytes(b"".join(encoder.encode(frame) for frame in pcm.astype(np.float32)))

    async def call(
        self,
        steps: str,
        port: int,
        *,
        number: str = "5550100",
        calls: int = 1,
        at_once: int = 1,
        per_s: int = 20,
        transport: str = "udp",
        loss_pct: int = 0,
        host: str = "127.0.0.1",
        within_s: float = 30.0,
    ) -> None:
        """Call a server on 127.0.0.1. Raises: AssertionError with SIPp's own words if any call went wrong."""
        own = free_ports(2, host)
        media = free_ports(MEDIA_PORTS_PER_CALL * at_once + 4, host)
        arguments = ["-s", number, "-i", host, "-mi", host, "-p", str(own), "-mp", str(media)]
        arguments += ["-m", str(calls), "-l", str(at_once), "-r", str(per_s), "-lost", str(loss_pct)]
        arguments += ["-t", {"udp": "u1", "tcp": "t1"}[transport], f"127.0.0.1:{port}"]
        async with self._running(steps, arguments, within_s) as ended:
            await ended

    @contextlib.asynccontextmanager
    async def answering(self, steps: str, port: int, *, within_s: float = 20.0) -> AsyncIterator[asyncio.Future[None]]:
        """Take one call on 127.0.0.1, and echo what is said in it; leaves when the scenario has come to its end.

        Yields: what is done then.
        """
        media = free_ports(MEDIA_PORTS_PER_CALL)
        arguments = ["-i", "127.0.0.1", "-mi", "127.0.0.1", "-p", str(port), "-mp", str(media), "-rtp_echo", "-m", "1"]
        async with self._running(steps, arguments, within_s) as ended:
            await asyncio.sleep(0.3)  # a socket that is not there yet costs the caller a retransmission
            yield ended
            await ended

    @contextlib.asynccontextmanager
    async def _running(self, steps: str, arguments: list[str], within_s: float) -> AsyncIterator[asyncio.Future[None]]:
        name = f"scenario-{next(self._numbers)}"
        scenario, errors = self._directory / f"{name}.xml", self._directory / f"{name}.errors"
        scenario.write_text(_DOCUMENT.format(name=name, steps=steps), "latin-1")
        process = await asyncio.create_subprocess_exec(
            *(self._program, "-sf", str(scenario), "-nostdin", "-trace_err", "-error_file", str(errors)),
            *("-timeout", f"{within_s:.0f}s", "-timeout_error", *arguments),
            cwd=self._directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

        async def end() -> None:
            output, _ = await process.communicate()
            said = errors.read_text(errors="replace") if errors.exists() else output.decode(errors="replace")[-3000:]
            assert process.returncode == 0, f"sipp ended with {process.returncode} in {scenario}:\n{said}"

        ended = asyncio.ensure_future(end())
        try:
            yield ended
        finally:
            if process.returncode is None:
                process.kill()
            with contextlib.suppress(AssertionError):
                await ended
