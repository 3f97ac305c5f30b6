"""Offers within a call: hold and resume, another port, another codec, refusals, glare."""

from __future__ import annotations

import random

import pytest

from rtc_server.transports.sip.call.call import CallState
from rtc_server.transports.sip.call.renegotiation import glare_delay_s
from tests.transports.sip.call.fakes import World, audio_of, events_of
from tests.transports.sip.call.phone import sdp


async def types_of(world: World) -> list[str]:
    return [event["type"] for event in await events_of(world.call)]


@pytest.mark.parametrize("method", ["INVITE", "UPDATE"])
@pytest.mark.parametrize(
    ("offered", "answered"), [("sendonly", "recvonly"), ("inactive", "inactive"), ("recvonly", "sendonly")]
)
async def test_direction_is_answered_with_its_counterpart(
    world: World, method: str, offered: str, answered: str
) -> None:
    phone = await world.answered()
    phone.send(method, sdp(direction=offered, version=2))
    await world.settle()
    assert phone.new() == ["200"]
    assert audio_of(phone.last.body).direction == answered
    assert world.leg.agreed.direction == answered


async def test_hold_by_zero_address_and_resume_on_another_port(world: World) -> None:
    phone = await world.answered()
    phone.send("INVITE", sdp(port=9, address="0.0.0.0", direction="inactive", version=2))
    await world.settle()
    assert audio_of(phone.last.body).direction == "inactive"
    assert world.leg.agreed.remote_rtp is None
    phone.ack()
    phone.send("INVITE", sdp(port=16400, version=3))
    await world.settle()
    phone.ack()
    assert audio_of(phone.last.body).direction == "sendrecv"
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 16400)
    assert await types_of(world) == ["ringing", "answered", "held", "resumed"]


async def test_held_call_is_asked_now_and_then_whether_it_lives(world: World) -> None:
    phone = await world.answered()
    phone.send("INVITE", sdp(direction="inactive", version=2))
    await world.settle()
    phone.ack()
    phone.new()
    await world.advance(290)
    assert phone.new() == []
    asked = 0
    for _ in range(1000):
        await world.advance(1)
        if "OPTIONS" in phone.new():
            asked += 1
            phone.answer(200, to="OPTIONS")
    assert asked == 4
    call = world.call
    await world.advance(320 + 33)
    assert "OPTIONS" in phone.new()
    assert call.end_reason == "peer_gone"


async def test_call_that_is_resumed_is_asked_as_soon_as_any(world: World) -> None:
    phone = await world.answered()
    phone.send("INVITE", sdp(direction="inactive", version=2))
    await world.settle()
    phone.ack()
    await world.advance(100)
    phone.send("INVITE", sdp(version=3))
    await world.settle()
    phone.ack()
    phone.new()
    await world.advance(41)
    assert "OPTIONS" in phone.new()


async def test_another_codec_is_followed_and_one_that_is_not_here_refused(world: World) -> None:
    phone = await world.answered(body=sdp("8 PCMA/8000", "101 telephone-event/8000"))
    phone.send("INVITE", sdp(version=2))
    await world.settle()
    assert audio_of(phone.last.body).formats == ("0", "101")
    assert world.leg.agreed.audio.codec == "PCMU"
    phone.ack()
    phone.new()
    phone.send("INVITE", sdp("18 G729/8000", version=3))
    await world.settle()
    assert phone.new() == ["488"]
    phone.ack_refusal()
    assert world.leg.agreed.audio.codec == "PCMU"
    assert world.call.state is CallState.ANSWERED


async def test_fax_is_refused_and_the_call_goes_on(world: World) -> None:
    phone = await world.answered()
    agreements = len(world.leg.agreements)
    fax = sdp(version=2).replace("m=audio 16384 RTP/AVP 0 101", "m=image 20334 udptl t38")
    phone.send("INVITE", fax)
    await world.settle()
    assert phone.new() == ["488"]
    assert len(world.leg.agreements) == agreements
    assert world.call.state is CallState.ANSWERED


async def test_reinvite_without_an_offer_gets_ours(world: World) -> None:
    phone = await world.answered()
    phone.send("INVITE")
    await world.settle()
    assert audio_of(phone.last.body).formats[0] == "0"
    phone.ack(sdp(port=20000, version=2))
    await world.settle()
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 20000)
    assert world.call.state is CallState.ANSWERED


async def test_reinvite_while_our_offer_waits_is_a_glare(world: World) -> None:
    phone = await world.answered()
    phone.send("INVITE")
    await world.settle()
    phone.new()
    phone.send("UPDATE", sdp(version=2))
    await world.settle()
    assert phone.new() == ["491"]


async def test_answer_to_a_reinvite_is_repeated_until_its_ack(world: World) -> None:
    phone = await world.answered()
    phone.send("INVITE", sdp(version=2))
    await world.advance(2)
    assert phone.new() == ["200", "200", "200"]
    phone.ack()
    await world.advance(10)
    assert phone.new() == []


async def test_lost_ack_to_a_reinvite_ends_the_call(world: World) -> None:
    phone = await world.answered()
    call = world.call
    phone.send("INVITE", sdp(version=2))
    await world.advance(33)
    assert call.end_reason == "ack_lost"
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_request_out_of_order_is_a_500(world: World) -> None:
    phone = await world.answered()
    phone.send("INFO", cseq=1, branch="z9hG4bK-old")
    assert phone.new() == ["500"]
    assert world.call.state is CallState.ANSWERED


async def test_offer_before_the_first_answer_has_to_wait(world: World) -> None:
    phone = await world.ringing()
    phone.new()
    phone.send("UPDATE", sdp(version=2))
    await world.settle()
    assert phone.new() == ["500"]
    assert phone.last.headers.get("Retry-After") is not None


async def test_update_that_refreshes_the_target_is_followed(world: World) -> None:
    phone = await world.answered()
    phone.contact = "<sip:moved@198.51.100.7:5060>"
    phone.send("UPDATE")
    await world.settle()
    world.call.hangup()
    assert phone.last_request("BYE").uri == "sip:moved@198.51.100.7:5060"


@pytest.mark.parametrize(("owner", "least", "most"), [(True, 2.1, 4.0), (False, 0.0, 2.0)])
def test_wait_after_a_glare_depends_on_who_began_the_call(owner: bool, least: float, most: float) -> None:
    delays = [glare_delay_s(owner, random.Random(seed)) for seed in range(200)]
    assert least <= min(delays) < max(delays) <= most
    assert all(round(delay * 100) == pytest.approx(delay * 100) for delay in delays)
