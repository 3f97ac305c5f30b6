"""The client of the ``moshi`` package itself, unchanged, talks over ``/api/chat``."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import sys
import wave
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.conftest import Serve
from tests.e2e.listen import Recording, best_lag, plain, share_of
from tests.e2e.peer_process import PeerProcess, pcm_of, running_peer
from tests.e2e.server import ServerProcess
from tests.e2e.speech import RATE_HZ, Pcm, resampled, said, silence

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

MOSHI_HZ = 24_000
GREETING_S = 8.0
"""The agent speaks first, and is to finish."""
LONGEST_LAG_S = 1.5
"""For a machine with other things to do; what the lag really is, the benchmark measures."""


@contextlib.asynccontextmanager
async def moshi_client(server: ServerProcess, path: Path, *speech: Pcm) -> AsyncIterator[PeerProcess]:
    """Calls, and says `speech` (48 kHz) into its microphone."""
    for package in ("moshi", "sphn"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package} here: make peers")
    pcm = resampled(np.concatenate(speech), RATE_HZ, MOSHI_HZ)
    with wave.open(str(path / "speech.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(MOSHI_HZ)
        file.writeframes((np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes())
    url = server.url.replace("http://", "ws://")
    async with running_peer([sys.executable, "-m", "tests.e2e.moshi_client", url, str(path / "speech.wav")]) as peer:
        yield peer


def assert_served(answer: dict[str, Any]) -> None:
    """The client lost nothing, and met nothing that it does not know but the handshake."""
    complaints = [line for line in answer["complaints"].splitlines() if not line.startswith("Info")]
    unknown = [line for line in complaints if "LAG" not in line]
    assert unknown in ([], ["Warning: unknown message kind 0"]), complaints
    assert not answer["is_over"]


async def test_it_hears_its_own_speech_come_back(serve: Serve, tmp_path: Path) -> None:
    server = await serve("echo", 1)
    utterances = [said("02_two_turns", index) for index in range(2)]
    speech = np.concatenate([part for utterance in utterances for part in (silence(1.0), utterance)])
    async with moshi_client(server, tmp_path, speech) as peer:
        await asyncio.sleep(len(speech) / RATE_HZ + LONGEST_LAG_S)
        answer = await peer.ask("heard")
    assert_served(answer)
    sent = Recording(resampled(speech, RATE_HZ, MOSHI_HZ), MOSHI_HZ)
    heard = Recording(pcm_of(answer["pcm"]), MOSHI_HZ, answer["lag_s"])
    lags, began_s = [], 0.8
    for utterance in utterances:
        ended_s = began_s + len(utterance) / RATE_HZ + 0.3
        lags.append(best_lag(sent.between(began_s, ended_s), heard.between(began_s, ended_s + LONGEST_LAG_S)))
        began_s = ended_s + 0.7
    # A busy machine may spoil one of them, not both.
    lag_s, fit = max(lags, key=lambda lag: lag[1])
    assert fit > 0.85
    assert 0 < lag_s < LONGEST_LAG_S
    await server.wait_slots_in_use(0)


async def test_it_talks_with_the_demo_agent_and_prints_its_words(serve: Serve, tmp_path: Path) -> None:
    server = await serve("cascade", 1)
    async with moshi_client(server, tmp_path, silence(GREETING_S), said("02_two_turns", 0)) as peer:
        async with asyncio.timeout(40):
            while "nice to meet you" not in plain((await peer.ask("heard"))["words"]):
                await asyncio.sleep(0.5)
        await asyncio.sleep(2)
        answer = await peer.ask("heard")
    assert_served(answer)
    words = plain(answer["words"])
    assert words.index("demo voice") < words.index("nice to meet you")
    assert share_of(words, Recording(pcm_of(answer["pcm"]), MOSHI_HZ).words()) > 0.6
    await server.wait_slots_in_use(0)
