"""The server under test as a process of its own: started, pinned, waited for, and ended by its pid whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from rtc_server.bench import affinity
from rtc_server.bench.options import SIP, BenchOptions
from rtc_server.errors import ConfigError, EngineUnavailable

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0
LOG_TAIL_LINES = 5
MAX_LOG_BYTES = 1 << 20
HOST = "127.0.0.1"
_SIP_SETTINGS = """
[sip]
listen = ["udp:{host}:{port}"]
rtp_ports = "10000-29999"  # many, since a port rests when a call has used it
[[sip.trunks]]
name = "bench"
addresses = ["127.0.0.0/8"]
codecs = ["PCMU"]
numbers = [{{ pattern = "*" }}]
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A server that can be measured."""

    name: str
    url: str
    adapter: str = "plain"
    pid: int | None = None
    cpu: int | None = None
    """The core it is pinned to, if it is."""
    udp_port: int | None = None
    """Where its media is, if it was started here: for a relay in front of it."""


@contextlib.contextmanager
def target_of(options: BenchOptions, slots: int) -> Iterator[Target]:
    """The server at the options' URL, or else one of our own with so many slots."""
    if options.url is not None:
        adapter = SIP if options.sip else options.adapter
        yield Target(options.url, options.url, adapter, options.server_pid)
        return
    start = own_phone_server if options.sip else own_server
    with start(slots, options.server_cpu, options.engine, options.engine_process) as target:
        yield target


@contextlib.contextmanager
def own_server(
    slots: int,
    cpu: int | None,
    engine: str = "echo",
    engine_process: str = "auto",
    environment: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
) -> Iterator[Target]:
    """This package's own server, on free ports of the loopback interface.

    Args:
        environment: set for it on top.
        settings: more flags of `serve`.
    """
    port, udp_port = _free_port(socket.SOCK_STREAM), _free_port(socket.SOCK_DGRAM)
    command = ["-m", "rtc_server", "serve", "--engine", engine, "--slots", str(slots), "--host", HOST]
    command += ["--engine-process", engine_process]
    command += ["--port", str(port), "--udp-port", str(udp_port), "--auth", "none", *settings]
    with _running("rtc_server", command, port, "/v1/sessions", cpu, environment) as target:
        yield replace(target, udp_port=udp_port)


@contextlib.contextmanager
def own_phone_server(
    slots: int, cpu: int | None, engine: str = "echo", engine_process: str = "auto"
) -> Iterator[Target]:
    """The same for phone calls: whoever calls from this machine is answered."""
    port = _free_port(socket.SOCK_DGRAM)
    with tempfile.TemporaryDirectory(prefix="rtc-bench-") as folder:
        path = Path(folder, "sip.toml")
        path.write_text(_SIP_SETTINGS.format(host=HOST, port=port))
        with own_server(slots, cpu, engine, engine_process, settings=("--config", str(path))) as target:
            yield replace(target, url=f"sip:100@{HOST}:{port}", adapter=SIP)


@contextlib.contextmanager
def peer_server(name: str, cpu: int | None) -> Iterator[Target]:
    """A stock server of `rtc_server.bench.peers`.

    Raises: ConfigError when there is none of this name.
    """
    if name != "aiortc":
        raise ConfigError(f"--peer {name!r} is unknown", hint="known: aiortc")
    port = _free_port(socket.SOCK_STREAM)
    command = ["-m", "rtc_server.bench.peers.aiortc_echo", "--port", str(port)]
    with _running(name, command, port, "/offer", cpu) as target:
        yield target


@contextlib.contextmanager
def _running(
    name: str,
    command: Sequence[str],
    port: int,
    path: str,
    cpu: int | None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Target]:
    with tempfile.TemporaryFile() as log, _sigterm_unwinds():
        process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**_environment(), **(environment or {})},
        )
        try:
            pinned = affinity.pin(process.pid, cpu)
            _wait_until_ready(process, f"http://{HOST}:{port}/readyz", log.fileno())
            yield Target(name, f"http://{HOST}:{port}{path}", pid=process.pid, cpu=pinned)
        finally:
            stop(process)


def stop(process: subprocess.Popen[bytes], timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Ask, wait, insist."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: int) -> None:
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise EngineUnavailable(
                f"the server under test ended with exit code {process.returncode} before it was ready",
                hint=f"its last words: {_tail(log)}",
            )
        try:
            with urllib.request.urlopen(url, timeout=2.0) as response:
                if response.status == 200:
                    return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            pass
        time.sleep(0.05)
    raise EngineUnavailable(
        f"the server under test was not ready after {READY_TIMEOUT_S:g} s", hint=f"its last words: {_tail(log)}"
    )


def _tail(log: int) -> str:
    lines = os.pread(log, MAX_LOG_BYTES, 0).decode(errors="replace").strip().splitlines()
    return "\n".join(lines[-LOG_TAIL_LINES:]) or "(none)"


def _environment() -> dict[str, str]:
    """Ours without ``RTC_*``: settings of a production server shall not change what is measured."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RTC_")}


def _free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _sigterm_unwinds() -> Iterator[None]:
    """A SIGTERM to the benchmark becomes SystemExit, so that what it started is ended too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
