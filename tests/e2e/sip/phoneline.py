"""Settings of a phone line for a server of its own: calls come from 127.0.0.1, everybody else is a stranger.

Numbers: 5550100 is answered at once, 5550130 by an engine that takes 30 s to get ready, 5550101 takes one call.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp

from tests.e2e.server import ServerProcess
from tests.e2e.sip.livephone import LivePhone
from tests.e2e.sip.ports import free_ports, range_of_ports
from tests.e2e.sip.sipserver import CallFeed

NUMBER, RINGS, ONE_CALL = "5550100", "5550130", "5550101"

_SETTINGS = """
[sip]
listen = ["udp:127.0.0.1:{port}", "tcp:127.0.0.1:{port}"]
rtp_ports = "{first_rtp}-{last_rtp}"
{more}

[[sip.trunks]]
name = "phones"
addresses = ["127.0.0.1"]
target = "udp:127.0.0.1:{callee_port}"
may_dial = ["+1555*"]
caller_id = "+15550100"
numbers = [
  {{ pattern = "5550100" }},
  {{ pattern = "5550101", max_calls = 1 }},
  {{ pattern = "5550130", persona = "30" }},
]
"""


class PhoneLine:
    """
    Args:
        rtp_ports: how many; a call takes two, and rests them behind it.
        more: other settings of ``[sip]``, as TOML.
    """

    def __init__(self, directory: Path, rtp_ports: int = 200, more: str = "") -> None:
        self.port = free_ports(2)
        self.callee_port = free_ports(2)
        first = range_of_ports(rtp_ports) if rtp_ports > 20 else free_ports(rtp_ports)
        self.settings = directory / f"sip-{self.port}.toml"
        self.settings.write_text(
            _SETTINGS.format(
                port=self.port,
                callee_port=self.callee_port,
                first_rtp=first,
                last_rtp=first + rtp_ports - 1,
                more=more,
            )
        )

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def flags(self) -> tuple[str, str]:
        """For ``rtc-server serve``."""
        return "--config", str(self.settings)

    def phone(self, number: str = NUMBER, host: str = "127.0.0.1") -> LivePhone:
        return LivePhone(self.address, number, host)


async def answered_call(server: ServerProcess) -> str:
    """Id of the only one."""
    _, body = await server.get("/v1/calls")
    (call_id,) = [call["id"] for call in body["calls"] if call["state"] == "answered"]
    return str(call_id)


@contextlib.asynccontextmanager
async def call_feed(url: str, call_id: str) -> AsyncIterator[CallFeed]:
    """What happens in a call, from its beginning."""
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{url}/v1/calls/{call_id}/events") as socket:
        yield CallFeed(socket)
