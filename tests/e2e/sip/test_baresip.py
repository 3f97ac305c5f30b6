"""baresip calls the echo engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from rtc_server.media.g711 import levels
from tests.e2e.sip.baresip import running_baresip
from tests.e2e.sip.sipserver import SipServer
from tests.e2e.sip.sniff import Sniffed, sniffing
from tests.e2e.sip.sound import likeness_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

TALK_S = 4.0
SAME_S = 3.5
"""The first of what came back; what comes behind is cut by keys and by hold."""
RTP_HEADER_BYTES, PACKET_BYTES, AUTHENTICATION_BYTES = 12, 160, 10


async def test_hears_itself_presses_keys_and_holds(server: SipServer, microphone: Path, tmp_path: Path) -> None:
    async with running_baresip(tmp_path / "baresip", microphone) as phone:
        with sniffing(server.first_rtp_port, server.last_rtp_port) as sniffed:
            await phone.ask("dial", server.uri(transport="tcp"))
            await phone.until("CALL_ESTABLISHED")
            await asyncio.sleep(TALK_S)
        async with server.feed(await server.only_call()) as feed:
            await phone.press("42#")
            assert await feed.digits(3) == "42#"
            await phone.ask("hold")
            await feed.until("held")
            await phone.ask("resume")
            await feed.until("resumed")
            await phone.ask("hangup")
            assert (await feed.until("ended"))["reason"] == "peer_closed"
    sniffed.echo("PCMU").assert_still(SAME_S)
    likeness_of(microphone, phone.heard()).assert_heard(SAME_S)


async def test_nobody_on_the_way_hears_a_secure_call(server: SipServer, microphone: Path, tmp_path: Path) -> None:
    with sniffing(server.first_rtp_port, server.last_rtp_port) as sniffed:
        async with running_baresip(tmp_path / "baresip", microphone, line=";mediaenc=srtp-mand") as phone:
            await phone.ask("dial", server.uri(transport="tls"))
            await phone.until("CALL_ESTABLISHED")
            await asyncio.sleep(TALK_S)
            await phone.ask("hangup")
            await phone.until("CALL_CLOSED")
    likeness_of(microphone, phone.heard()).assert_heard(SAME_S)
    assert_ciphertext(sniffed)


def assert_ciphertext(sniffed: Sniffed) -> None:
    """Packets both ways carry an authentication tag, and what they hold is noise to whoever takes it for PCMU."""
    size = RTP_HEADER_BYTES + PACKET_BYTES + AUTHENTICATION_BYTES
    packets = [payload for payload in sniffed.payloads if payload[1] & 0x7F == 0]
    assert len(packets) > 2 * 50 * SAME_S
    assert {len(packet) for packet in packets} == {size}
    octets = np.frombuffer(b"".join(packet[RTP_HEADER_BYTES:-AUTHENTICATION_BYTES] for packet in packets), np.uint8)
    pcm = levels("PCMU")[octets]
    assert abs(np.corrcoef(pcm[:-1], pcm[1:])[0, 1]) < 0.05
    assert np.bincount(octets, minlength=256).max() < 2 * octets.size / 256


async def test_is_called_and_keys_of_ours_arrive(server: SipServer, microphone: Path, tmp_path: Path) -> None:
    async with running_baresip(tmp_path / "baresip", microphone, sip_port=server.callee_port) as phone:
        with sniffing(server.first_rtp_port, server.last_rtp_port) as sniffed:
            call = await server.dial()
            await phone.until("CALL_ESTABLISHED")
            await asyncio.sleep(TALK_S)
        async with server.feed(call) as feed:
            await feed.until("answered")
            await server.post(f"/{call}/dtmf", {"digits": "42#"})
            await phone.wait_keys("42#")
            await server.post(f"/{call}/hangup")
            await feed.until("ended")
        await phone.until("CALL_CLOSED")
    sniffed.echo("PCMU").assert_still(SAME_S)
    likeness_of(microphone, phone.heard()).assert_heard(SAME_S)
