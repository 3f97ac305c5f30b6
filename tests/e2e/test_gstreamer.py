"""GStreamer's webrtcbin calls the echo engine: RSA certificate, either DTLS role, Opus and G.711."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Serve
from tests.e2e.peer_process import audible_share, loudest_hz, pcm_of, running_peer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

CLIENT = Path(__file__).with_name("gstreamer") / "client.py"
PYTHON = "/usr/bin/python3"
"""Debian's, which has the bindings."""
RATE_HZ = 48_000


@functools.cache
def has_webrtcbin() -> bool:
    check = (
        "import gi; gi.require_version('Gst', '1.0'); gi.require_version('GstWebRTC', '1.0'); "
        "from gi.repository import Gst; Gst.init(None); "
        "assert all(map(Gst.ElementFactory.find, ('webrtcbin', 'nicesrc', 'opusenc', 'mulawenc', 'dtlsenc')))"
    )
    return os.access(PYTHON, os.X_OK) and subprocess.run([PYTHON, "-c", check], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("codec", "setup", "our_setup", "answered"),
    [
        ("opus", "actpass", "passive", "opus/48000/2"),
        ("opus", "passive", "active", "opus/48000/2"),
        ("pcmu", "actpass", "passive", "PCMU/8000"),
        ("pcma", "passive", "active", "PCMA/8000"),
    ],
)
async def test_hears_its_own_tone(serve: Serve, codec: str, setup: str, our_setup: str, answered: str) -> None:
    if not has_webrtcbin():
        pytest.skip("no GStreamer webrtcbin here: make peers")
    server = await serve("echo")
    async with running_peer([PYTHON, str(CLIENT), server.url, codec, setup]) as gstreamer:
        session = await gstreamer.ask("connect")
        await asyncio.sleep(3)
        heard = await gstreamer.ask("heard")
        await gstreamer.ask("close")

    assert f"a=setup:{our_setup}" in session["answer"]
    assert answered in session["answer"]
    pcm = pcm_of(heard["pcm"])[-RATE_HZ:]
    assert loudest_hz(pcm, RATE_HZ) == pytest.approx(440, abs=3)
    assert audible_share(pcm, RATE_HZ) > 0.7
