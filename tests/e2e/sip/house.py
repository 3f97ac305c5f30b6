"""A server in the test's own process, for a look at what is left in it when calls have ended."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import patch

from rtc_server import config, sipconfig
from rtc_server.server import Server
from rtc_server.session.session import Session
from rtc_server.transports.sip.call.call import Call
from rtc_server.transports.sip.call.rtpmedia import RtpMedia
from rtc_server.transports.sip.media.leg import SipLeg
from rtc_server.transports.sip.network.network import SipNetwork
from rtc_server.transports.sip.transaction.timers import Intervals
from rtc_server.transports.sip.useragent import UserAgent
from tests.e2e.sip.livephone import LivePhone
from tests.e2e.sip.patientecho import PatientEcho
from tests.e2e.sip.phoneline import PhoneLine

SLOTS = 40
RTP_PORTS = 4000
"""A pair rests for half a minute behind a call."""
GONE_WITHIN_S = 15.0


class Brisk(Intervals):
    """What takes half a minute on the internet takes three seconds."""

    @property
    def linger_s(self) -> float:
        return self.timeout_s


BRISK = Brisk(t1_s=0.05, t2_s=0.4, t4_s=0.5)


class House:
    """A server in this process."""

    def __init__(self, server: Server, line: PhoneLine) -> None:
        self.server = server
        self.line = line
        assert server.sip is not None
        self.agent = server.sip
        self.one_call = asyncio.Lock()
        """Who calls the number that takes one call."""

    def left(self) -> dict[str, int]:
        """What there is of calls, but for the little that is remembered of those that have ended."""
        agent, media, network = self.agent, self.agent._around.media, self.agent._network
        assert isinstance(media, RtpMedia) and isinstance(network, SipNetwork)
        gc.collect()
        return {
            "calls": len(agent.calls),
            "dialogs": agent.calls.dialogs,
            "transactions": len(agent._transactions),
            "timers": len(agent._timers),
            "tasks": len(agent._tasks),
            "connections": len(network.streams),
            "RTP ports": media._ports.in_use,
            "sessions": len(self.server.registry),
            "slots": self.server.engine.capacity().in_use,
            "samples": sum(isinstance(item, (Session, SipLeg)) for item in gc.get_objects()),
        }

    async def wait_nothing_left(self) -> None:
        deadline_s = asyncio.get_running_loop().time() + GONE_WITHIN_S
        while any((left := self.left()).values()):
            assert asyncio.get_running_loop().time() < deadline_s, str(left)
            await asyncio.sleep(0.5)

    def call_of(self, phone: LivePhone) -> Call:
        """The one that a phone is in."""
        (call,) = [call for call in self.agent.calls if (call._flow is not None and call._flow.remote == phone.place)]
        return call


@contextlib.asynccontextmanager
async def brisk_house(directory: Path) -> AsyncIterator[House]:
    line = PhoneLine(directory, RTP_PORTS)
    engine = f"{PatientEcho.__module__}:{PatientEcho.__name__}"
    flags = {"engine": engine, "slots": SLOTS, "port": 0, "udp_port": 0, "drain_s": 0.1}
    with patch.object(sipconfig, "UserAgent", functools.partial(UserAgent, intervals=BRISK)):
        server = Server(config.load(flags, line.settings))
    await server.start()
    try:
        yield House(server, line)
    finally:
        await server.stop()
