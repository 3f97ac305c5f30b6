"""A phone that speaks Opus."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.sip.baresip import running_baresip
from tests.e2e.sip.sipserver import SipServer
from tests.e2e.sip.sound import likeness_of, voice, write_wav

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

RATE_HZ = 48_000
TALK_S, SAME_S = 4.0, 3.0
ALIKE = 0.95
"""Opus keeps what is heard, not the waveform, and the sound is encoded twice."""


async def test_hears_itself_in_opus(server: SipServer, tmp_path: Path) -> None:
    microphone = write_wav(tmp_path / "said48k.wav", voice(20, RATE_HZ), RATE_HZ)
    async with running_baresip(tmp_path / "baresip", microphone, rate_hz=RATE_HZ, codecs="opus/48000/2") as phone:
        await phone.ask("dial", server.uri())
        await phone.until("CALL_ESTABLISHED")
        await asyncio.sleep(TALK_S)
        async with server.feed(await server.only_call()) as feed:
            await phone.press("4#")
            assert await feed.digits(2) == "4#"
            await phone.ask("hangup")
            await feed.until("ended")
    likeness = likeness_of(microphone, phone.heard())
    parts = likeness.parts[1 : round(2 * SAME_S)]
    assert len(parts) == round(2 * SAME_S) - 1 and np.median(parts) >= ALIKE, str(likeness)
