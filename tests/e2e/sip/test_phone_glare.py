"""Both ends change a call at once: each refuses the other's and tries again in its own time, and the sound goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.e2e.sip import scenarios
from tests.e2e.sip.crossing import REFRESH_AFTER_S, crossing
from tests.e2e.sip.pjsua import running_pjsua
from tests.e2e.sip.ports import free_ports
from tests.e2e.sip.sipp import Sipp
from tests.e2e.sip.sipserver import SipServer
from tests.e2e.sip.sniff import sniffing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

BEFORE_S, AFTER_S = 2.0, 2.0
"""How long is listened before the changes cross, and behind them."""
RETRY_WITHIN_S = 8.0
"""4 s by the RFC, for the end that has made the call, on a machine that has time."""


async def test_a_phone_whose_change_crosses_ours_is_heard_all_the_time(
    server: SipServer, microphone: Path, tmp_path: Path
) -> None:
    port = free_ports(2)
    async with (
        running_pjsua(tmp_path / "pjsua", microphone, sip_port=port) as phone,
        crossing(server.port, port, server.callee_port) as line,
    ):
        call = await server.dial()
        await phone.ask("answered")
        await asyncio.sleep(REFRESH_AFTER_S - BEFORE_S)
        with sniffing(server.first_rtp_port, server.last_rtp_port) as sniffed:
            await line.until(lambda line: line.server_said == ["INVITE"], within_s=BEFORE_S + 8)
            assert (await phone.ask("change"))["status"] == 491
            assert (await phone.ask("change"))["status"] == 200
            await line.until(lambda line: line.server_said.count("ACK") == 2, RETRY_WITHIN_S)
            await asyncio.sleep(AFTER_S)
        async with server.feed(call) as feed:
            await server.post(f"/{call}/hangup")
            assert (await feed.until("ended"))["reason"] == "hangup"
        await phone.ask("ended")
    assert line.server_said[:6] == ["INVITE", "491", "ACK", "200", "INVITE", "ACK"]
    assert line.phone_said[:6] == ["INVITE", "491", "ACK", "INVITE", "ACK", "200"]
    assert feed.kinds() == ["answered", "ended"]
    sniffed.echo("PCMU").assert_still(BEFORE_S + AFTER_S + 2)


async def test_whoever_has_made_the_call_waits_longer_before_it_tries_again(server: SipServer, sipp: Sipp) -> None:
    async with (
        sipp.answering(scenarios.answer_and_cross(), server.callee_port, within_s=30.0),
        server.feed(await server.dial()) as feed,
    ):
        assert (await feed.until("ended", REFRESH_AFTER_S + RETRY_WITHIN_S + 5))["reason"] == "peer_closed"
    assert feed.kinds() == ["ringing", "answered", "ended"]
