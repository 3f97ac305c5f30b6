"""The phone on a desk of docs/telephony.md: its settings, its lines for baresip and Linphone, and what is typed, as
written there. Only addresses, ports and sound devices are those of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import shutil
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import ServerProcess, watched
from tests.e2e.sip.linphone import running_linphone
from tests.e2e.sip.ports import free_ports
from tests.telephonypage import blocks, commands, section

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

DESK = section("A phone on your desk, in five minutes")
SLOTS = 2
PASSWORD = "sesame, open"
WITHIN_S = 15.0
MICROPHONE = """
module aufile.so
module aubridge.so
net_interface 127.0.0.1
"""


class Desk:
    """Server and phone of the page, both on loopback."""

    def __init__(self, directory: Path, settings: str) -> None:
        self.directory = directory
        self.port, self.phone_port = free_ports(2), free_ports(2)
        file = directory / "rtc.toml"
        file.write_text(self.here(settings))
        self.server = ServerProcess(directory / "server.log", "echo", SLOTS, "--config", str(file))

    def here(self, text: str) -> str:
        """The page's text with addresses and ports of ours."""
        for there, ours in (
            ("0.0.0.0:5060", f"127.0.0.1:{self.port}"),
            ("192.168.1.0/24", "127.0.0.0/8"),
            ("192.168.1.10", f"127.0.0.1:{self.port}"),
            ("192.168.1.20:5060", f"127.0.0.1:{self.phone_port}"),
            ("192.168.1.20", "127.0.0.1"),
        ):
            text = text.replace(there, ours)
        return text

    async def call(self, accepts: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The only call, as soon as it is as wanted."""
        deadline_s, seen = time.monotonic() + WITHIN_S, []
        while time.monotonic() < deadline_s:
            _, body = await self.server.get("/v1/calls")
            seen = [call for call in body["calls"] if accepts(call)]
            if seen:
                return dict(seen[0])
            await asyncio.sleep(0.05)
        raise AssertionError(f"no such call, but {body['calls']}\n{self.server.log}")

    @contextlib.asynccontextmanager
    async def baresip(self, *arguments: str, accounts: str, microphone: Path) -> AsyncIterator[Process]:
        """Its settings are those that it makes itself, and what the page adds to them."""
        folder, program = self.directory / "baresip", shutil.which("baresip")
        if program is None:
            pytest.skip("no baresip here: make peers")
        with (self.directory / "baresip.log").open("wb") as output:

            async def start(*more: str) -> Process:
                return await asyncio.create_subprocess_exec(
                    program, "-f", str(folder), *more, stdin=asyncio.subprocess.PIPE, stdout=output, stderr=output
                )

            folder.mkdir()
            first = await start()
            await asyncio.wait_for(first.communicate(b"q"), WITHIN_S)
            made = (folder / "config").read_text()
            devices = {"source": f"aufile,{microphone}", "player": "aubridge,nil", "alert": "aubridge,nil"}
            for kind, device in devices.items():
                made = re.sub(rf"(?m)^audio_{kind}\s.*", f"audio_{kind} {device}", made)
            (sip_listen,) = re.findall(r"(?m)^sip_listen .*", DESK)
            (folder / "config").write_text(f"{made}\n{MICROPHONE}\n{self.here(sip_listen)}\n")
            (folder / "accounts").write_text(f"{self.here(accounts)}\n")
            phone = await start(*arguments)
            try:
                yield phone
            finally:
                if phone.returncode is None:
                    phone.terminate()
                await phone.wait()


@contextlib.asynccontextmanager
async def desk(directory: Path, settings: str) -> AsyncIterator[Desk]:
    made = Desk(directory, settings)
    async with watched(made.server):
        yield made


def command(program: str) -> str:
    (found,) = [line for line in commands(DESK) if line.startswith(f"{program} ")]
    return found


def account() -> str:
    (line,) = re.findall(r"(?m)^<sip:.*$", DESK)
    return str(line)


async def test_baresip_calls_the_agent_and_is_called(tmp_path: Path, microphone: Path) -> None:
    program, *arguments = shlex.split(command("baresip"))
    assert program == "baresip"
    async with desk(tmp_path, blocks("toml", DESK)[0]) as office:
        arguments = [office.here(argument) for argument in arguments]
        async with office.baresip(*arguments, accounts=account(), microphone=microphone) as phone:
            call = await office.call(lambda call: call["state"] == "answered")
            assert (call["direction"], call["from"], call["to"]) == ("inbound", "desk", "100")
            assert phone.stdin is not None
            phone.stdin.write(b"b")
            await office.call(lambda call: call["end_reason"] == "peer_closed")

            if shutil.which("curl") is None:
                pytest.skip("no curl here: make peers")
            program, *arguments = shlex.split(command("curl").replace("http://localhost:8124", office.server.url))
            asked = await asyncio.create_subprocess_exec(
                program, "-sS", "--fail-with-body", *arguments, stdout=asyncio.subprocess.DEVNULL
            )
            assert await asked.wait() == 0
            await office.call(lambda call: call["state"] == "ringing")
            phone.stdin.write(b"a")
            call = await office.call(lambda call: call["state"] == "answered")
            assert (call["direction"], call["from"], call["to"]) == ("outbound", "agent", "desk")
        await office.call(lambda call: call["direction"] == "outbound" and call["state"] == "ended")


async def test_baresip_calls_with_a_password(tmp_path: Path, microphone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_PASSWORD", PASSWORD)
    (line,) = re.findall(r"In baresip:\s`([^`]+)`", DESK)
    arguments = shlex.split(command("baresip"))[1:]
    async with desk(tmp_path, blocks("toml", DESK)[1]) as office:
        arguments = [office.here(argument) for argument in arguments]
        accounts = line.replace("auth_pass=...", f'auth_pass="{PASSWORD}"')
        async with office.baresip(*arguments, accounts=accounts, microphone=microphone):
            call = await office.call(lambda call: call["state"] == "answered")
            assert (call["trunk"], call["from"]) == ("phones", "desk")
        await office.call(lambda call: call["state"] == "ended")


async def test_linphone_calls_the_agent(tmp_path: Path, microphone: Path) -> None:
    started, *typed = [line for line in commands(DESK) if line.startswith("linphonec")]
    assert started == "linphonec"
    async with (
        desk(tmp_path, blocks("toml", DESK)[0]) as office,
        running_linphone(tmp_path / "linphone", microphone, ipv6=True) as phone,
    ):
        for line in typed:
            await phone.tell(office.here(line.removeprefix("linphonec> ")))
        await phone.until("connected")
        call = await office.call(lambda call: call["state"] == "answered")
        assert (call["direction"], call["to"]) == ("inbound", "100")
        await phone.tell("terminate")
        await office.call(lambda call: call["end_reason"] == "peer_closed")
        await phone.quit()
