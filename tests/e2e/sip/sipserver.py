"""A server that takes and makes phone calls, all on loopback addresses.

Numbers: 5550100 answers at once, 5550115 rings for 1.5 s before it does. From 127.0.0.1 everybody may call; from other
loopback addresses only who knows the password of ``joe``. Calls out go to `callee_port`, on trunk ``phones`` without a
password, on ``gate`` with that of ``rtc``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e.server import ServerProcess, watched
from tests.e2e.sip.ports import free_ports, range_of_ports
from tests.transports.sip.network.authority import Authority

ENGINE = "tests.e2e.sip.patientecho:PatientEcho"
SLOTS = 32
CALLEE = "+15550123"
AT_ONCE, AFTER_1500_MS = "5550100", "5550115"
USER, PASSWORD = "joe", "s3cret"
GATE_USER, GATE_PASSWORD = "rtc", "0pensesame"
EVENT_WITHIN_S = 10.0
IDLE_WITHIN_S = 15.0
RTP_PORTS = 2000
"""Many, since a port rests when a call has used it."""

_SETTINGS = """
[sip]
listen = ["udp:127.0.0.1:{port}", "tcp:127.0.0.1:{port}", "tls:127.0.0.1:{tls_port}"]
rtp_ports = "{first_rtp}-{last_rtp}"
tls_cert = "{certificate}"
tls_key = "{key}"
ring_s = 3
unknown_callers = "challenge"

[[sip.trunks]]
name = "phones"
addresses = ["127.0.0.1"]
target = "udp:127.0.0.1:{callee_port}"
may_dial = ["+1555*"]
caller_id = "+15550100"
headers = ["X-Ticket"]
refer = "accept"
numbers = [{{ pattern = "{at_once}" }}, {{ pattern = "{after_1500_ms}", persona = "1.5" }}]

[[sip.trunks]]
name = "gate"
username = "{user}"
password = "{password}"
target = "udp:127.0.0.1:{callee_port}"
target_username = "{gate_user}"
target_password = "{gate_password}"
may_dial = ["+1555*"]
numbers = [{{ pattern = "{at_once}" }}]
"""


class SipServer:
    """The server's process, its ports, and the part of its API that is about phone calls."""

    def __init__(self, directory: Path) -> None:
        self.port = free_ports(2)
        self.tls_port = self.port + 1
        self.callee_port = free_ports(2)
        self.first_rtp_port = range_of_ports(RTP_PORTS)
        self.last_rtp_port = self.first_rtp_port + RTP_PORTS - 1
        tls = Authority(directory).settings("127.0.0.1")
        settings = directory / "sip.toml"
        settings.write_text(
            _SETTINGS.format(
                port=self.port,
                tls_port=self.tls_port,
                callee_port=self.callee_port,
                first_rtp=self.first_rtp_port,
                last_rtp=self.last_rtp_port,
                certificate=tls.certificate,
                key=tls.key,
                at_once=AT_ONCE,
                after_1500_ms=AFTER_1500_MS,
                user=USER,
                password=PASSWORD,
                gate_user=GATE_USER,
                gate_password=GATE_PASSWORD,
            )
        )
        self.process = ServerProcess(directory / "sip-server.log", ENGINE, SLOTS, "--config", str(settings))

    def uri(self, number: str = AT_ONCE, transport: str = "udp") -> str:
        port = self.tls_port if transport == "tls" else self.port
        return f"sip:{number}@127.0.0.1:{port};transport={transport}"

    async def calls(self) -> list[dict[str, Any]]:
        """Those that have not ended."""
        _, body = await self.process.get("/v1/calls")
        return [call for call in body["calls"] if call["state"] != "ended"]

    async def wait_calls(self, count: int) -> list[dict[str, Any]]:
        """The calls, as soon as there are so many."""
        deadline_s = time.monotonic() + EVENT_WITHIN_S
        while len(calls := await self.calls()) != count:
            assert time.monotonic() < deadline_s, f"there are {len(calls)} calls, not {count}"
            await asyncio.sleep(0.05)
        return calls

    async def only_call(self) -> str:
        """Id of the call that is there, or comes within the next seconds."""
        (call,) = await self.wait_calls(1)
        call_id: str = call["id"]
        return call_id

    async def dial(self, to: str = CALLEE, trunk: str = "phones") -> str:
        """Call a phone; the id of the call."""
        call_id: str = (await self.post("", {"to": to, "trunk": trunk}))["id"]
        return call_id

    async def post(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """To what is below /v1/calls. Raises: AssertionError unless that is taken."""
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as http,
            http.post(f"{self.process.url}/v1/calls{path}", json=body or {}) as response,
        ):
            text = await response.text()
            assert response.status < 300, f"{path}: {response.status} {text}"
            answer: dict[str, Any] = json.loads(text or "{}")
            return answer

    @contextlib.asynccontextmanager
    async def feed(self, call_id: str) -> AsyncIterator[CallFeed]:
        """What happens in a call, from its beginning."""
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(f"{self.process.url}/v1/calls/{call_id}/events") as socket,
        ):
            yield CallFeed(socket)

    async def hang_up_all(self) -> None:
        for call in await self.calls():
            await self.post(f"/{call['id']}/hangup")

    async def wait_idle(self) -> None:
        """Until no call is left behind."""
        await self.process.wait_slots_in_use(0, IDLE_WITHIN_S)
        await self.wait_calls(0)


class CallFeed:
    """The events of one call, as they come."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.past: list[dict[str, Any]] = []

    async def until(self, kind: str, within_s: float = EVENT_WITHIN_S) -> dict[str, Any]:
        """Read on to the next event of a kind."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    event: dict[str, Any] = await self._socket.receive_json()
                    self.past.append(event)
                    if event["type"] == kind:
                        return event
                    assert event["type"] != "ended", f"no {kind}, but {self.past}"
        except TimeoutError:
            raise AssertionError(f"no {kind} within {within_s} s, but {self.past}") from None

    async def digits(self, count: int) -> str:
        return "".join([(await self.until("dtmf"))["digit"] for _ in range(count)])

    def kinds(self) -> list[str]:
        """Without those that tell what is heard: an echo interrupts itself."""
        return [event["type"] for event in self.past if event["type"] != "barge_in"]


@contextlib.asynccontextmanager
async def running_sip_server(directory: Path) -> AsyncIterator[SipServer]:
    """A server that is ready; at the end no call is left, it stops on SIGTERM, and its log is clean."""
    server = SipServer(directory)
    async with watched(server.process):
        yield server
        await server.wait_idle()
