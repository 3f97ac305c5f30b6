"""A phone is handed on, and hands on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.sip.baresip import running_baresip
from tests.e2e.sip.ports import free_ports
from tests.e2e.sip.sipserver import CALLEE, SipServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]


async def test_a_phone_that_is_told_to_call_somebody_else_does(
    server: SipServer, microphone: Path, tmp_path: Path
) -> None:
    port = free_ports(2)
    async with (
        running_baresip(tmp_path / "other", microphone, sip_port=port) as other,
        running_baresip(tmp_path / "baresip", microphone) as phone,
    ):
        await phone.ask("dial", server.uri())
        await phone.until("CALL_ESTABLISHED")
        call = await server.only_call()
        async with server.feed(call) as feed:
            await server.post(f"/{call}/transfer", {"to": f"sip:{CALLEE}@127.0.0.1:{port}"})
            await other.until("CALL_ESTABLISHED")
            await feed.until("transferred")
            assert (await feed.until("ended"))["reason"] == "transferred"
        await phone.ask("hangup")


async def test_a_phone_hands_the_agent_on(server: SipServer, microphone: Path, tmp_path: Path) -> None:
    async with (
        running_baresip(tmp_path / "other", microphone, sip_port=server.callee_port) as other,
        running_baresip(tmp_path / "baresip", microphone) as phone,
    ):
        await phone.ask("dial", server.uri())
        await phone.until("CALL_ESTABLISHED")
        await phone.ask("transfer", f"sip:{CALLEE}@127.0.0.1")
        await other.until("CALL_ESTABLISHED")
        await server.hang_up_all()
        await other.until("CALL_CLOSED")


async def test_a_phone_hands_the_agent_on_to_nobody_whom_the_trunk_may_not_call(
    server: SipServer, microphone: Path, tmp_path: Path
) -> None:
    async with running_baresip(tmp_path / "baresip", microphone) as phone:
        await phone.ask("dial", server.uri())
        await phone.until("CALL_ESTABLISHED")
        call = await server.only_call()
        await phone.ask("transfer", "sip:+4930123456@127.0.0.1")
        await phone.until("TRANSFER_FAILED")
        async with server.feed(call) as feed:
            await phone.ask("hangup")
            assert (await feed.until("ended"))["reason"] == "peer_closed"
