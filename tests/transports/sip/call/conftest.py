from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.transports.sip.call.fakes import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """With four slots and one trunk."""
    world = World()
    await world.agent.start()
    yield world
    await world.agent.close()
