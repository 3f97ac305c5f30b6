"""A real server in a process of its own, and what must be true when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parents[2]
START_WITHIN_S = 30.0
FREE_WITHIN_S = 15.0
"""A caller that said goodbye, or whose connection was closed 10 s ago, has given its slot back by then."""
STOP_WITHIN_S = 15.0


def free_port(kind: socket.SocketKind) -> int:
    """A port that nobody uses at the moment."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("0.0.0.0", 0))
        port: int = probe.getsockname()[1]
        return port


class ServerProcess:
    """``python -m rtc_server serve`` on free ports, or on those of `after`, which has ended; its output in a file."""

    def __init__(
        self, log_path: Path, engine: str, slots: int, *flags: str, after: ServerProcess | None = None
    ) -> None:
        self.port = after.port if after else free_port(socket.SOCK_STREAM)
        self.udp_port = after.udp_port if after else free_port(socket.SOCK_DGRAM)
        self.metrics_port = free_port(socket.SOCK_STREAM)
        self.url = f"http://localhost:{self.port}"
        self.log_path = log_path
        self._log = log_path.open("wb")
        command = [sys.executable, "-m", "rtc_server", "serve", "--engine", engine, "--slots", str(slots)]
        command += ["--port", str(self.port), "--udp-port", str(self.udp_port), "--auth", "none"]
        command += ["--metrics-port", str(self.metrics_port), "--log-format", "json", *flags]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RTC_")}
        environment |= {"HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON body."""
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession(timeout=timeout) as http, http.get(self.url + path) as response:
            return response.status, await response.json()

    async def slots_in_use(self) -> int:
        _, body = await self.get("/readyz")
        return int(body["slots"]["in_use"])

    async def metric(self, name: str) -> float:
        """The value of one sample of the metrics page, labels included in its name; 0 where there is none."""
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{self.metrics_port}/metrics") as response,
        ):
            for line in (await response.text()).splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[-1])
        return 0.0

    async def wait_ready(self) -> None:
        deadline = asyncio.get_running_loop().time() + START_WITHIN_S
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode} at its start:\n{self.log}")
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                status, _ = await self.get("/readyz")
                if status == 200:
                    return
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"the server was not ready within {START_WITHIN_S} s:\n{self.log}")
            await asyncio.sleep(0.1)

    async def wait_slots_in_use(self, slots: int, within_s: float = FREE_WITHIN_S) -> None:
        deadline = asyncio.get_running_loop().time() + within_s
        while (in_use := await self.slots_in_use()) != slots:
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"{in_use} slots in use after {within_s} s, not {slots}:\n{self.log}")
            await asyncio.sleep(0.1)

    async def wait_metric(self, name: str, value: float, within_s: float) -> None:
        deadline = asyncio.get_running_loop().time() + within_s
        while (found := await self.metric(name)) != value:
            assert asyncio.get_running_loop().time() < deadline, f"{name} is {found} after {within_s} s, not {value}"
            await asyncio.sleep(0.3)

    async def stop(self) -> int:
        """SIGTERM, and the exit status; kills what does not end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.to_thread(self.process.wait, STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server did not end within {STOP_WITHIN_S} s of SIGTERM:\n{self.log}") from None

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()

    def complaints(self) -> list[str]:
        """Lines of the log that a healthy server does not write."""
        bad = ("Traceback", "never retrieved", "was never awaited", "exception in callback", "Fatal error")
        return [line for line in self.log.splitlines() if any(b in line for b in bad) or _level(line) == "error"]


@contextlib.asynccontextmanager
async def running_server(
    directory: Path, engine: str, slots: int, *flags: str, after: ServerProcess | None = None
) -> AsyncIterator[ServerProcess]:
    """A server that is ready; at the end all slots are free, it stops on SIGTERM, and its log is clean."""
    log_path = directory / f"server-{engine}-{os.urandom(2).hex()}.log"
    server = ServerProcess(log_path, engine, slots, *flags, after=after)
    async with watched(server):
        yield server


@contextlib.asynccontextmanager
async def watched(server: ServerProcess) -> AsyncIterator[ServerProcess]:
    """The rest of a server's life, with what must be true at its end."""
    try:
        await server.wait_ready()
        yield server
        if server.process.poll() is None:
            await server.wait_slots_in_use(0)
        status = await server.stop()
        assert status == 0, f"the server ended with {status}:\n{server.log}"
        assert not server.complaints(), f"the server complained:\n{server.log}"
    finally:
        server.kill()


def _level(line: str) -> str:
    try:
        record = json.loads(line)
    except ValueError:
        return ""
    level = record.get("level", "") if isinstance(record, dict) else ""
    return "error" if level in ("error", "critical") else str(level)
