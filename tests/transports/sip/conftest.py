"""A user agent's transactions without a network, in virtual time."""

from __future__ import annotations

import pytest

from tests.transports.sip.transaction.virtualtime import Agent, VirtualTime


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def agent(time: VirtualTime) -> Agent:
    return Agent(time)
