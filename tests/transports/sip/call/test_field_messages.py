"""Calls whose messages are those of phones, exchanges and proxies as they were met in the field, byte by byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rtc_server.engine.client import Live
from rtc_server.transports.sip.call.call import CallState
from rtc_server.transports.sip.call.surroundings import CallSettings
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request, parse
from rtc_server.transports.sip.negotiation.agreedmedia import MediaPolicy, SrtpPolicy
from tests.logs import captured_logs
from tests.transports.sip.call.fakes import FLOW, TRUNK, US, Phone, World, audio_of, events_of

DIRECTORY = Path(__file__).parents[3] / "data" / "sip"
TO_TAG = "{{TO_TAG}}"
"""Stands for the tag of our first answer."""


def text_of(name: str) -> str:
    return (DIRECTORY / f"{name}.txt").read_bytes().decode()


class FieldPhone:
    """Sends messages out of files, and can go on with the call that they have begun."""

    def __init__(self, world: World, flow: Flow = FLOW) -> None:
        self.phone: Phone = world.phone(flow)
        self._world = world

    async def send(self, name: str, *changes: tuple[str, str]) -> list[str]:
        """What it gets back. `changes`: what is said instead."""
        text = text_of(name).replace(TO_TAG, self.phone.our_tag or "")
        for said, instead in changes:
            assert said in text, said
            text = text.replace(said, instead)
        self._adopt(text)
        self.phone.send_text(text)
        await self._world.settle()
        return self.phone.new()

    async def answered(self, name: str, *changes: tuple[str, str]) -> None:
        """An INVITE, up to its ACK."""
        await self.send(name, *changes)
        await self._world.tick(2)
        assert self.phone.last.status == 200, self.phone.received
        await self.acknowledge()

    async def acknowledge(self) -> None:
        self.phone.ack()
        await self._world.settle()
        self.phone.new()

    def _adopt(self, text: str) -> None:
        request = parse(text.encode())
        assert isinstance(request, Request)
        headers = request.headers
        self.phone.call_id, self.phone._from = headers.get("Call-ID") or "", headers.get("From") or ""
        self.phone._to = (headers.get("To") or "").partition(";tag=")[0]
        self.phone.contact = headers.get("Contact") or self.phone.contact
        self.phone.cseq = int((headers.get("CSeq") or "").split()[0])
        self.phone._branches[self.phone.cseq] = (headers.get("Via") or "").partition("branch=")[2]


@pytest.fixture
def phone(world: World) -> FieldPhone:
    return FieldPhone(world)


async def test_answer_to_our_offer_comes_with_the_ack(world: World, phone: FieldPhone) -> None:
    assert await phone.send("delayed_offer_1_invite") == ["100", "180"]
    await world.tick(2)
    offered = audio_of(phone.phone.last_response(200).body)
    assert {"0", "8"} < set(offered.formats)
    assert any(value.endswith("telephone-event/8000") for value in offered.values("rtpmap"))
    assert world.leg.live is Live.NO
    await phone.send("delayed_offer_2_ack")
    assert world.leg.live is Live.YES
    assert (world.leg.agreed.audio.codec, world.leg.agreed.remote_rtp) == ("PCMU", ("198.51.100.7", 16105))


@pytest.mark.parametrize(("srtp", "profile"), [("require", "RTP/SAVP"), ("accept", "RTP/AVP")])
async def test_our_offer_to_a_proxy_is_as_secret_as_the_trunk_wants_it(srtp: SrtpPolicy, profile: str) -> None:
    world = World(trunks=[replace(TRUNK, media=MediaPolicy(srtp=srtp))])
    phone = FieldPhone(world, Flow("tls", US, ("198.51.100.9", 5567)))
    await phone.send("offerless_through_proxies")
    await world.tick(2)
    answer = phone.phone.last_response(200)
    assert audio_of(answer.body).profile == profile
    assert bool(audio_of(answer.body).values("crypto")) == (srtp == "require")
    first, second = answer.headers.all("Via")
    assert first.startswith("SIP/2.0/TLS 198.51.100.9:5567;branch=z9hG4bK2c9c.0a54949b17a87515f9ef924451cdb429.0")
    assert second == "SIP/2.0/UDP 198.51.100.8:5060;received=198.51.100.8;branch=z9hG4bK3597.0"


async def test_hold_by_address_0_and_resume_on_another_port(world: World, phone: FieldPhone) -> None:
    await phone.answered("hold_1_invite")
    assert await phone.send("hold_2_zero_address") == ["200"]
    assert audio_of(phone.phone.last.body).direction == "inactive"
    assert world.leg.agreed.remote_rtp is None
    await phone.acknowledge()
    assert await phone.send("hold_3_resume_on_another_port") == ["200"]
    assert audio_of(phone.phone.last.body).direction == "sendrecv"
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 16400)


async def test_another_codec_is_followed_and_one_that_is_not_here_changes_nothing(
    world: World, phone: FieldPhone
) -> None:
    await phone.answered("codec_change_1_pcma")
    assert world.leg.agreed.audio.codec == "PCMA"
    assert await phone.send("codec_change_2_pcmu") == ["200"]
    assert audio_of(phone.phone.last.body).formats == ("0", "101")
    await phone.acknowledge()
    agreements = len(world.leg.agreements)
    assert await phone.send("codec_change_3_g729") == ["488"]
    assert (len(world.leg.agreements), world.leg.agreed.audio.codec) == (agreements, "PCMU")
    assert world.call.state is CallState.ANSWERED


async def test_fax_is_refused_and_the_call_goes_on(world: World, phone: FieldPhone) -> None:
    await phone.answered("fax_1_audio")
    agreements = len(world.leg.agreements)
    assert await phone.send("fax_2_t38") == ["488"]
    assert len(world.leg.agreements) == agreements
    assert world.call.state is CallState.ANSWERED


async def test_probe_of_a_proxy_is_answered_and_leaves_nothing(world: World, phone: FieldPhone) -> None:
    assert await phone.send("options_of_a_proxy") == ["200"]
    assert {"INVITE", "BYE", "UPDATE"} <= set(phone.phone.last.headers.all("Allow"))
    assert phone.phone.last.headers.all("Accept") == ["application/sdp"]
    assert phone.phone.last.headers.get("CSeq") == "14 OPTIONS"
    await world.assert_nothing_left()


async def test_session_of_60_seconds_is_too_short_and_one_of_90_is_not(world: World, phone: FieldPhone) -> None:
    """What is wrong then is its media: keys by DTLS."""
    assert await phone.send("timer_of_60_s") == ["422"]
    assert phone.phone.last.headers.get("Min-SE") == "90"
    again = (("Session-Expires: 60", "Session-Expires: 90"), ("CSeq: 1 ", "CSeq: 2 "), ("z9hG4bK66", "z9hG4bK77"))
    assert await phone.send("timer_of_60_s", *again) == ["100", "488"]
    assert (phone.phone.last.headers.get("Warning") or "").startswith("306 ")


async def test_updates_keep_a_call_and_their_end_ends_it() -> None:
    world = World(settings=CallSettings(quiet_s=10_000, goodbye_s=0.0))
    phone = FieldPhone(world)
    await phone.answered("timer_1_invite")
    call = world.call
    assert phone.phone.last.headers.get("Session-Expires") == "90;refresher=uac"
    for number in range(2, 7):
        await world.advance(45)
        changes = ("CSeq: 2 ", f"CSeq: {number} "), ("z9hG4bK2bfd", f"z9hG4bK{number}bfd")
        assert await phone.send("timer_2_update", *changes) == ["200"]
    assert call.state is CallState.ANSWERED
    await world.advance(60.2)
    assert phone.phone.new() == ["BYE"]
    assert call.end_reason == "session_expired"
    phone.phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_withheld_number_is_told_to_nobody(world: World, phone: FieldPhone) -> None:
    with captured_logs() as logs:
        await phone.answered("withheld_number")
    call = world.call
    assert call.caller is None
    told = f"{logs} {await events_of(call)} {call.metadata} {call.callee}"
    assert "5550100" not in told


async def test_private_addresses_are_signalled_to_where_they_were_seen(world: World, phone: FieldPhone) -> None:
    await phone.answered("private_address")
    assert world.leg.agreed.remote_rtp == ("10.9.33.103", 14264)
    assert world.leg.peer_host == "198.51.100.7", "its audio is looked for where its signalling comes from"
    world.call.hangup()
    await world.settle()
    assert phone.phone.new() == ["BYE"]
    assert phone.phone.last_request("BYE").uri == "sip:1001@10.9.33.103:5060"
    assert world.network.connected == []


async def test_preconditions_must_not_be_required(world: World, phone: FieldPhone) -> None:
    assert await phone.send("preconditions") == ["420"]
    assert phone.phone.last.headers.all("Unsupported") == ["precondition"]
    assert list(world.agent.calls) == []
    only_supported = (("Require: precondition", "Supported: precondition"), ("CSeq: 1 ", "CSeq: 2 "), ("a709", "b709"))
    await phone.answered("preconditions", *only_supported)
    answer = phone.phone.last_response(200)
    assert answer.headers.all("Record-Route") == ["<sip:198.51.100.30;transport=udp;lr>"]
    assert (answer.headers.get("Session-Expires") or "").startswith("1800")


async def test_repeated_invite_is_one_call_and_one_by_another_path_none(world: World, phone: FieldPhone) -> None:
    assert await phone.send("merged_1_invite") == ["100", "180"]
    for pause_s in (0.5, 1, 2):
        await world.advance(pause_s)
        assert await phone.send("merged_1_invite") == ["180"]
    assert await phone.send("merged_2_other_branch") == ["482"]
    assert len(world.agent.calls) == 1
    assert len(world.house.engine.leases) == 1
