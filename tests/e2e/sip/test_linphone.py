"""linphonec calls the echo engine. What it says it sends from where it does not claim to be: a phone behind a NAT."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rtc_server.media.audioformat import CodecName
from tests.e2e.sip.linphone import running_linphone
from tests.e2e.sip.sipserver import SipServer
from tests.e2e.sip.sniff import sniffing
from tests.e2e.sip.sound import likeness_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

TALK_S = 4.0
SAME_S = 3.5


@pytest.mark.parametrize(
    ("transport", "codec", "encryption"),
    [("udp", "PCMA", "none"), ("tls", "PCMU", "srtp")],
)
async def test_hears_itself_and_presses_keys(
    server: SipServer, microphone: Path, tmp_path: Path, transport: str, codec: CodecName, encryption: str
) -> None:
    async with running_linphone(tmp_path / "linphone", microphone, codec, encryption) as phone:
        with sniffing(server.first_rtp_port, server.last_rtp_port) as sniffed:
            await phone.tell(f"call {server.uri(transport=transport)}")
            await phone.until("connected")
            await asyncio.sleep(TALK_S)
        async with server.feed(await server.only_call()) as feed:
            await phone.tell("42#")
            assert await feed.digits(3) == "42#"
            await phone.tell("pause")
            await feed.until("held")
            await phone.until("is now paused")
            await phone.tell("resume")
            await feed.until("resumed")
            await phone.tell("terminate")
            assert (await feed.until("ended"))["reason"] == "peer_closed"
        await phone.quit()
    if encryption == "none":
        sniffed.echo(codec).assert_still(SAME_S)
    likeness_of(microphone, phone.recording).assert_heard(SAME_S)
