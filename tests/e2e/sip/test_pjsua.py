"""PJSIP calls the echo engine, and is called."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rtc_server.media.audioformat import CodecName
from tests.e2e.sip.pjsua import running_pjsua
from tests.e2e.sip.sipserver import PASSWORD, USER, SipServer
from tests.e2e.sip.sniff import sniffing
from tests.e2e.sip.sound import likeness, likeness_of, read_wav

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

TALK_S = 4.0
SAME_S = 3.5


@pytest.mark.parametrize(("transport", "codec", "srtp"), [("udp", "PCMU", False), ("tls", "PCMA", True)])
async def test_hears_itself_presses_keys_and_holds(
    server: SipServer, microphone: Path, tmp_path: Path, transport: str, codec: CodecName, srtp: bool
) -> None:
    async with running_pjsua(tmp_path / "pjsua", microphone, codec=codec, srtp=srtp) as phone:
        with sniffing(server.first_rtp_port, server.last_rtp_port) as sniffed:
            await phone.call(server.uri(transport=transport))
            await asyncio.sleep(TALK_S)
        async with server.feed(await server.only_call()) as feed:
            await phone.ask("press", digits="42#")
            assert await feed.digits(3) == "42#"
            await phone.ask("hold")
            await feed.until("held")
            await phone.ask("resume")
            await feed.until("resumed")
            await phone.ask("hangup")
            assert (await feed.until("ended"))["reason"] == "peer_closed"
    if not srtp:
        sniffed.echo(codec).assert_still(SAME_S)
    likeness_of(microphone, phone.recording).assert_heard(SAME_S)


async def test_hears_itself_again_behind_hold(server: SipServer, microphone: Path, tmp_path: Path) -> None:
    async with running_pjsua(tmp_path / "pjsua", microphone) as phone:
        await phone.call(server.uri())
        await phone.ask("hold")
        await asyncio.sleep(0.5)
        await phone.ask("resume")
        await asyncio.sleep(TALK_S)
        await phone.ask("hangup")
    pcm, rate_hz = read_wav(phone.recording)
    likeness(*read_wav(microphone), pcm[-round((SAME_S + 0.5) * rate_hz) :], rate_hz).assert_heard(SAME_S)


async def test_hears_itself_in_wide_band(server: SipServer, wide_microphone: Path, tmp_path: Path) -> None:
    async with running_pjsua(tmp_path / "pjsua", wide_microphone, codec="G722") as phone:
        with sniffing(server.first_rtp_port, server.last_rtp_port) as sniffed:
            await phone.call(server.uri())
            await asyncio.sleep(TALK_S)
        await phone.ask("hangup")
    sniffed.echo("G722").assert_still(SAME_S)
    likeness_of(wide_microphone, phone.recording).assert_heard(SAME_S)


async def test_a_stranger_with_the_password_may_call(server: SipServer, microphone: Path, tmp_path: Path) -> None:
    async with running_pjsua(
        tmp_path / "pjsua", microphone, username=USER, password=PASSWORD, host="127.0.0.4"
    ) as phone:
        await phone.call(server.uri())
        await phone.ask("hangup")


async def test_a_stranger_with_a_wrong_password_may_not(server: SipServer, microphone: Path, tmp_path: Path) -> None:
    async with running_pjsua(
        tmp_path / "pjsua", microphone, username=USER, password="wrong", host="127.0.0.5"
    ) as phone:
        with pytest.raises(AssertionError, match=r"40[13] "):
            await phone.call(server.uri())


async def test_is_called_and_keys_of_ours_arrive(server: SipServer, microphone: Path, tmp_path: Path) -> None:
    async with running_pjsua(tmp_path / "pjsua", microphone, sip_port=server.callee_port) as phone:
        with sniffing(server.first_rtp_port, server.last_rtp_port) as sniffed:
            call = await server.dial()
            await phone.ask("answered")
            await asyncio.sleep(TALK_S)
        async with server.feed(call) as feed:
            await feed.until("answered")
            await server.post(f"/{call}/dtmf", {"digits": "42#"})
            assert (await phone.ask("pressed", count=3))["digits"] == "42#"
            await server.post(f"/{call}/hangup")
            assert (await feed.until("ended"))["reason"] == "hangup"
        await phone.ask("ended")
    sniffed.echo("PCMU").assert_still(SAME_S)
    likeness_of(microphone, phone.recording).assert_heard(SAME_S)
