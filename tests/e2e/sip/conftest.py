"""One server for all phones; after each test no call may be left in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.sip.lateness import Lateness, watched_lateness
from tests.e2e.sip.sipp import Sipp
from tests.e2e.sip.sipserver import SipServer, running_sip_server
from tests.e2e.sip.sound import voice, write_wav

SAYS_S = 60.0


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SipServer]:
    async with running_sip_server(tmp_path_factory.mktemp("sip")) as server:
        yield server


@pytest_asyncio.fixture
async def server(running: SipServer) -> AsyncIterator[SipServer]:
    yield running
    try:
        await running.wait_idle()
    finally:
        await running.hang_up_all()  # the next test begins with none, whatever became of this one


@pytest.fixture
def sipp(tmp_path: Path) -> Sipp:
    return Sipp(tmp_path / "sipp")


@pytest.fixture
def machine() -> Iterator[Lateness]:
    with watched_lateness() as lateness:
        yield lateness


@pytest.fixture(scope="package")
def microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What phones with 8 kHz say."""
    return write_wav(tmp_path_factory.mktemp("said") / "said8k.wav", voice(SAYS_S, 8000), 8000)


@pytest.fixture(scope="package")
def wide_microphone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What phones with 16 kHz say."""
    return write_wav(tmp_path_factory.mktemp("said") / "said16k.wav", voice(SAYS_S, 16_000), 16_000)
