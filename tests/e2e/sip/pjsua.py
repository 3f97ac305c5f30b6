"""PJSIP, in a process and an environment of its own: see ``pjsua_phone.py``, which runs there."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.peer_process import PeerProcess, running_peer
from tests.e2e.server import ROOT
from tests.e2e.sip.ports import free_ports

_PYTHON = ROOT / "build" / "pjsua2" / "bin" / "python"
_PHONE = Path(__file__).with_name("pjsua_phone.py")


class Pjsua:
    """One phone; it answers every call."""

    def __init__(self, peer: PeerProcess, recording: Path) -> None:
        self._peer = peer
        self.recording = recording

    async def ask(self, command: str, **parameters: Any) -> dict[str, Any]:
        return await self._peer.ask(json.dumps({"do": command, **parameters}))

    async def call(self, uri: str) -> None:
        """Returns when it is answered. Raises: AssertionError with status and reason when it is not."""
        await self.ask("call", uri=uri)


@contextlib.asynccontextmanager
async def running_pjsua(
    directory: Path,
    microphone: Path,
    *,
    codec: str = "PCMU",
    srtp: bool = False,
    username: str = "pj",
    password: str = "",
    host: str = "127.0.0.1",
    sip_port: int | None = None,
) -> AsyncIterator[Pjsua]:
    """A phone that speaks one codec; what it has heard is whole after ``hangup`` or ``ended``."""
    if not _PYTHON.exists():
        pytest.skip("no pjsua2 here: make peers")
    os.mkdir(directory)
    recording = directory / "heard.wav"
    settings = {
        "sip_port": sip_port or free_ports(2, host),
        "rtp_port": free_ports(8, host),
        "host": host,
        "microphone": str(microphone),
        "recording": str(recording),
        "codec": codec,
        "srtp": srtp,
        "username": username,
        "password": password,
        "log": str(directory / "log"),
    }
    async with running_peer([str(_PYTHON), "-u", str(_PHONE), json.dumps(settings)]) as peer:
        yield Pjsua(peer, recording)
