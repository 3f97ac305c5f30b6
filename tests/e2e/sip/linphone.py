"""linphonec: a phone in a process of its own, told by lines of text. It says one WAV file and writes another."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.sip.ports import free_ports

_SETTINGS = """
[sip]
sip_port={udp_port}
sip_tcp_port={tcp_port}
sip_tls_port={tls_port}
guess_hostname=1
contact="Lin" <sip:lin@127.0.0.1>
media_encryption={encryption}
verify_server_certs=0
verify_server_cn=0

[rtp]
audio_rtp_port={rtp_port}

[sound]
echocancellation=0
playback_gain_db=0.0
mic_gain_db=0.0

[video]
enabled=0
automatically_initiate=0
automatically_accept=0
capture=0
display=0
"""


class Linphone:
    """One phone. A call is told apart from the next one by nothing: make one at a time."""

    def __init__(self, process: asyncio.subprocess.Process, output: Path, recording: Path) -> None:
        self._process = process
        self._output = output
        self._read_chars = 0
        self.recording = recording

    async def tell(self, command: str) -> None:
        """A line at its prompt; digits alone are keys."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        await self._process.stdin.drain()

    async def speak_only(self, codec: str) -> None:
        """Codecs have numbers."""
        await self.tell("codec disable all")
        listed = await self.until("disabled\nlinphonec>")
        (number,) = re.findall(rf"(\d+): {codec} \((?:8000|48000)\)", listed)
        await self.tell(f"codec enable {number}")

    async def until(self, text: str, within_s: float = 10.0) -> str:
        """Wait until it has written `text`, beyond what was waited for before. What it wrote up to there."""
        deadline = asyncio.get_running_loop().time() + within_s
        while (at := self.output().find(text, self._read_chars)) < 0:
            assert self._process.returncode is None, f"linphonec ended:\n{self.output()}"
            assert asyncio.get_running_loop().time() < deadline, f"no {text!r} within {within_s} s:\n{self.output()}"
            await asyncio.sleep(0.05)
        said = self.output()[self._read_chars : at]
        self._read_chars = at + len(text)
        return said

    def output(self) -> str:
        return self._output.read_text(errors="replace")

    async def quit(self) -> None:
        """Hang up what is left; `recording` is whole then."""
        if self._process.returncode is None:
            await self.tell("quit")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 5)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@contextlib.asynccontextmanager
async def running_linphone(
    directory: Path, microphone: Path, codec: str = "PCMU", encryption: str = "none", *, ipv6: bool = False
) -> AsyncIterator[Linphone]:
    """A phone that answers every call, and speaks one codec.

    Args:
        microphone: 16 bits, mono.
        encryption: ``none`` or ``srtp``.
        ipv6: as it is by itself; then it offers IPv6 media on a machine that has IPv6.
    """
    program = shutil.which("linphonec")
    if program is None:
        pytest.skip("no linphonec here: make peers")
    (directory / ".local" / "share" / "linphone").mkdir(parents=True)
    sip_port = free_ports(4)
    settings = directory / "rc"
    settings.write_text(
        _SETTINGS.format(
            udp_port=sip_port,
            tcp_port=sip_port + 1,
            tls_port=sip_port + 2,
            rtp_port=free_ports(4),
            encryption=encryption,
        )
    )
    output = directory / "output"
    with output.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            *(program, "-a", "-c", str(settings)),
            stdin=asyncio.subprocess.PIPE,
            stdout=sink,
            stderr=sink,
            env={**os.environ, "HOME": str(directory)},
        )
    phone = Linphone(process, output, directory / "heard.wav")
    try:
        await phone.until("linphonec>")
        if not ipv6:
            await phone.tell("ipv6 disable")
        await phone.speak_only(codec)
        await phone.tell("soundcard use files")
        await phone.tell(f"play {microphone}")
        await phone.tell(f"record {phone.recording}")
        yield phone
    finally:
        await phone.kill()
