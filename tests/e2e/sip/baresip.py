"""baresip: a phone in a process of its own, told over TCP what to do. It says one WAV file and writes another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.sip.ports import free_ports
from tests.e2e.sip.sipserver import CALLEE

ANSWER_WITHIN_S = 10.0
_MODULES = Path("/usr/lib/baresip/modules")
_CONFIG = """
poll_method epoll
sip_listen 127.0.0.1:{sip_port}
net_interface 127.0.0.1
audio_source aufile,{microphone}
audio_player aubridge,nil
audio_alert aubridge,nil
ausrc_srate {rate_hz}
auplay_srate {rate_hz}
ausrc_channels 1
auplay_channels 1
rtp_ports {rtp_port}-{last_rtp_port}
rtp_stats yes
jitter_buffer_delay 3-10
module_path {modules}
module stdio.so
module g711.so
module g722.so
module opus.so
module srtp.so
module aufile.so
module aubridge.so
module sndfile.so
module_tmp account.so
module_app menu.so
module_app ctrl_tcp.so
ctrl_tcp_listen 127.0.0.1:{control_port}
snd_path {directory}
"""


class Baresip:
    """One phone, with one line."""

    def __init__(self, directory: Path, process: asyncio.subprocess.Process) -> None:
        self._directory = directory
        self._process = process
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.past: list[dict[str, Any]] = []
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def connect(self, control_port: int) -> None:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            while self._writer is None:
                assert self._process.returncode is None, f"baresip ended at its start:\n{self.output()}"
                with contextlib.suppress(ConnectionError):
                    reader, self._writer = await asyncio.open_connection("127.0.0.1", control_port)
                    self._reading = asyncio.create_task(self._read(reader))
                await asyncio.sleep(0.05)

    async def ask(self, command: str, parameters: str = "") -> str:
        """A command of baresip's menu; what it says about it. Raises: AssertionError if it does not take it."""
        assert self._writer is not None
        message = json.dumps({"command": command, "params": parameters})
        self._writer.write(f"{len(message)}:{message},".encode())
        async with asyncio.timeout(ANSWER_WITHIN_S):
            answer = await self._answers.get()
        assert answer["ok"], f"{command} {parameters}: {answer}\n{self.output()}"
        return str(answer["data"])

    async def until(self, kind: str, within_s: float = ANSWER_WITHIN_S) -> dict[str, Any]:
        """Wait for the next event of a kind, such as ``CALL_ESTABLISHED``."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    event = await self._events.get()
                    self.past.append(event)
                    if event["type"] == kind:
                        return event
        except TimeoutError:
            raise AssertionError(f"no {kind} within {within_s} s, but {self.past}\n{self.output()}") from None

    async def press(self, digits: str) -> None:
        for digit in digits:
            await self.ask("sndcode", digit)
            await asyncio.sleep(0.25)
            await self.ask("sndcode", "\x04")  # the key is let go
            await asyncio.sleep(0.1)

    async def wait_keys(self, digits: str) -> None:
        """The other end presses these."""
        heard = "".join([(await self.until("CALL_DTMF_START"))["param"] for _ in digits])
        assert heard == digits

    def heard(self) -> Path:
        """What came in the newest call; whole when the phone is closed."""
        return max(self._directory.glob("dump-*-dec.wav"), key=lambda path: path.stat().st_mtime)

    def output(self) -> str:
        return (self._directory / "output").read_text(errors="replace")

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()
        if self._process.returncode is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), 3)
            except TimeoutError:
                self._process.kill()
        await self._process.wait()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Netstrings of JSON: ``12:{"event":...},``."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size = int((await reader.readuntil(b":"))[:-1])
                message = json.loads((await reader.readexactly(size + 1))[:-1])
                (self._answers if message.get("response") else self._events).put_nowait(message)


def _write_settings(directory: Path, config: str, account: str) -> None:
    directory.mkdir()
    (directory / "config").write_text(config)
    (directory / "accounts").write_text(account)
    (directory / "contacts").touch()


@contextlib.asynccontextmanager
async def running_baresip(
    directory: Path,
    microphone: Path,
    *,
    rate_hz: int = 8000,
    codecs: str = "PCMU/8000/1",
    line: str = "",
    sip_port: int | None = None,
) -> AsyncIterator[Baresip]:
    """A phone that answers every call.

    Args:
        microphone: 16 bits, mono, at `rate_hz`. baresip hangs up at its end.
        line: more parameters of the line, such as ``;mediaenc=srtp-mand``.
    """
    program = shutil.which("baresip")
    if program is None:
        pytest.skip("no baresip here: make peers")
    sip_port, rtp_port, control_port = sip_port or free_ports(2), free_ports(20), free_ports(1)
    config = _CONFIG.format(
        sip_port=sip_port,
        microphone=microphone,
        rate_hz=rate_hz,
        rtp_port=rtp_port,
        last_rtp_port=rtp_port + 19,
        modules=_MODULES,
        control_port=control_port,
        directory=directory,
    )
    account = f"<sip:{CALLEE}@127.0.0.1:{sip_port}>;regint=0;audio_codecs={codecs};answermode=auto{line}\n"
    _write_settings(directory, config, account)
    with (directory / "output").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(program, "-f", str(directory)), stdin=asyncio.subprocess.PIPE, stdout=output, stderr=output
        )
    phone = Baresip(directory, process)
    try:
        await phone.connect(control_port)
        yield phone
    finally:
        await phone.close()
