"""A call of ours, up to the ACK, and what may come after its end."""

from __future__ import annotations

import pytest

from rtc_server.engine.client import Live
from rtc_server.transports.sip.call.call import Call, CallState
from rtc_server.transports.sip.call.surroundings import CallSettings
from tests.transports.sip.call.fakes import World, audio_of, events_of
from tests.transports.sip.call.phone import Phone, sdp

CHALLENGE = 'WWW-Authenticate: Digest realm="r", nonce="{}", qop="auth", algorithm=MD5'


async def dialled(world: World, to: str = "+15550123", **wishes: str) -> tuple[Call, Phone]:
    phone = world.phone()
    call = await world.agent.dial(to, **wishes)
    await world.settle()
    return call, phone


async def answered(world: World) -> tuple[Call, Phone]:
    call, phone = await dialled(world)
    phone.join(phone.last_request("INVITE"))
    phone.answer(200, sdp())
    await world.settle()
    phone.new()
    return call, phone


async def types_of(call: Call) -> list[str]:
    return [event["type"] for event in await events_of(call)]


async def test_agent_gets_ready_while_it_rings_and_speaks_from_the_answer_on(world: World) -> None:
    call, phone = await dialled(world, persona="You are Ada.", voice="bass")
    assert phone.new() == ["INVITE"]
    assert (call.direction, call.state, call.caller, call.callee) == (
        "outbound",
        CallState.CALLING,
        "+15550199",
        "+15550123",
    )
    assert world.house.engine.prompts[0].persona == "You are Ada."
    invite = phone.last_request("INVITE")
    assert invite.uri == "sip:+15550123@198.51.100.7:5060"
    assert (invite.headers.get("From") or "").startswith("<sip:+15550199@198.51.100.7>;tag=")
    assert audio_of(invite.body).port == 40_000
    phone.answer(100)
    phone.answer(180)
    await world.tick(2)
    assert call.state is CallState.RINGING
    assert world.leg.live is Live.NO
    phone.answer(200, sdp())
    await world.settle()
    assert phone.new() == ["ACK"]
    assert call.state is CallState.ANSWERED
    assert world.leg.live is Live.YES
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 16384)
    assert await types_of(call) == ["ringing", "answered"]


async def test_lost_ack_is_sent_again_for_each_answer_that_comes_again(world: World) -> None:
    _, phone = await answered(world)
    phone.answer(200, sdp())
    phone.answer(200, sdp())
    await world.settle()
    assert phone.new() == ["ACK", "ACK"]


async def test_bye_of_either_end_frees_everything(world: World) -> None:
    call, phone = await answered(world)
    phone.send("BYE")
    await world.settle()
    assert call.end_reason == "peer_closed"
    call, phone = await answered(world)
    call.hangup()
    await world.settle()
    assert phone.new() == ["BYE"]
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_early_media_is_told_apart_from_ringing(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(183, sdp())
    await world.settle()
    assert await types_of(call) == ["early_media"]
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 16384)
    assert world.leg.live is Live.NO
    phone.answer(200, sdp(port=16500, version=2))
    await world.settle()
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 16500)
    assert await types_of(call) == ["early_media", "answered"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (486, "busy"),
        (600, "busy"),
        (603, "declined"),
        (480, "no_answer"),
        (408, "no_answer"),
        (404, "no_such_number"),
        (403, "refused"),
        (488, "media_refused"),
        (302, "redirected"),
        (503, "failed"),
    ],
)
async def test_refusals_are_told_apart(world: World, status: int, reason: str) -> None:
    call, phone = await dialled(world)
    phone.answer(180)
    phone.answer(status)
    await world.settle()
    assert call.end_reason == reason
    assert (await events_of(call))[-1] == {"type": "ended", "reason": reason, "detail": str(status)}
    assert phone.new() == ["INVITE", "ACK"]
    await world.assert_nothing_left()


async def test_phone_that_nobody_takes_is_let_go(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(180)
    await world.advance(60)
    assert call.end_reason == "no_answer"
    assert phone.new() == ["INVITE", "CANCEL"]
    assert phone.last_request("CANCEL").headers.get("Reason") == 'Q.850;cause=19;text="No answer"'
    phone.answer(200, to="CANCEL")
    phone.answer(487)
    await world.settle()
    assert phone.new() == ["ACK"]
    await world.assert_nothing_left()


async def test_hang_up_before_anything_is_heard_waits_with_its_cancel(world: World) -> None:
    call, phone = await dialled(world)
    call.hangup()
    await world.settle()
    assert phone.new() == ["INVITE"]
    assert world.media.open_ports == 0
    phone.answer(100)
    assert phone.new() == ["CANCEL"]
    phone.answer(200, to="CANCEL")
    phone.answer(487)
    assert phone.new() == ["ACK"]
    await world.assert_nothing_left()


async def test_answer_that_crosses_the_cancel_is_acknowledged_and_ended(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(180)
    call.hangup()
    phone.new()
    phone.answer(200, sdp())
    await world.settle()
    assert phone.new() == ["ACK", "BYE"]
    phone.answer(200, sdp())
    await world.settle()
    assert phone.new() == ["ACK"]
    phone.answer(200, to="BYE")
    phone.answer(200, to="CANCEL")
    assert call.end_reason == "hangup"
    await world.assert_nothing_left()


async def test_second_answer_of_a_forked_call_is_ended(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(180, tag="first")
    phone.answer(180, tag="second")
    phone.answer(200, sdp(), tag="second")
    await world.settle()
    phone.new()
    phone.answer(200, sdp(port=20000), tag="first")
    await world.settle()
    assert phone.new() == ["ACK", "BYE"]
    assert (phone.last_request("BYE").headers.get("To") or "").endswith("tag=first")
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 16384)
    assert call.state is CallState.ANSWERED
    phone.answer(200, to="BYE")
    await world.settle()
    assert world.agent.calls.dialogs > 0
    call.hangup()
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_challenge_is_answered_once_and_again_when_the_nonce_was_stale(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(401, headers=CHALLENGE.format("one"))
    await world.settle()
    assert phone.new() == ["INVITE", "ACK", "INVITE"]
    again = phone.last_request("INVITE")
    assert again.headers.get("CSeq") == "2 INVITE"
    assert 'nonce="one"' in (again.headers.get("Authorization") or "")
    phone.answer(401, headers=CHALLENGE.format("two") + ", stale=true")
    await world.settle()
    assert phone.last_request("INVITE").headers.get("CSeq") == "3 INVITE"
    phone.answer(200, sdp())
    await world.settle()
    assert call.state is CallState.ANSWERED
    assert phone.last_request("ACK").headers.get("Authorization") is not None


async def test_wrong_password_is_not_tried_again(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(407, headers=CHALLENGE.format("one").replace("WWW", "Proxy"))
    phone.answer(407, headers=CHALLENGE.format("two").replace("WWW", "Proxy"))
    await world.settle()
    assert call.end_reason == "refused" or call.end_reason == "unauthorized"
    assert phone.new() == ["INVITE", "ACK", "INVITE", "ACK"]
    await world.assert_nothing_left()


async def test_interval_that_is_too_short_for_the_peer_is_lengthened(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(401, headers=CHALLENGE.format("one"))
    phone.answer(422, headers="Min-SE: 3600")
    await world.settle()
    again = phone.last_request("INVITE")
    assert again.headers.get("Min-SE") == "3600"
    assert (again.headers.get("Session-Expires") or "").startswith("3600")
    assert "nc=00000002" in (again.headers.get("Authorization") or "")
    phone.answer(200, sdp())
    await world.settle()
    assert call.state is CallState.ANSWERED


async def test_answer_that_cannot_be_used_is_acknowledged_and_ended(world: World) -> None:
    call, phone = await dialled(world)
    phone.new()
    phone.answer(200, sdp("18 G729/8000"))
    await world.settle()
    assert phone.new() == ["ACK", "BYE"]
    assert (call.end_reason, call.end_detail) == ("media_refused", "none of opus, G722, PCMU, PCMA in g729/8000")
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_reliable_provisional_response_is_acknowledged_once(world: World) -> None:
    _, phone = await dialled(world)
    phone.new()
    for _ in range(2):
        phone.answer(183, sdp(), "Require: 100rel\r\nRSeq: 7")
    assert phone.new() == ["PRACK"]
    assert phone.last_request("PRACK").headers.get("RAck") == "7 1 INVITE"
    phone.answer(200, to="PRACK")
    phone.answer(180, headers="Require: 100rel\r\nRSeq: 9")
    assert phone.new() == []
    phone.answer(180, headers="Require: 100rel\r\nRSeq: 8")
    assert phone.new() == ["PRACK"]
    phone.answer(200)
    await world.settle()
    assert phone.new() == ["ACK"]


async def test_trunk_that_cannot_be_reached_is_told(world: World) -> None:
    world.network.unreachable = True
    call, _ = await dialled(world)
    assert call.end_reason == "unreachable"
    await world.assert_nothing_left()


async def test_trunk_that_never_answers_is_given_up(world: World) -> None:
    call, phone = await dialled(world)
    await world.advance(33)
    assert call.end_reason == "unreachable"
    assert phone.count("INVITE") == 7
    await world.assert_nothing_left()


async def test_phone_rings_for_ring_s_however_long_that_is() -> None:
    """Only a proxy lets no INVITE ring for longer than three minutes (RFC 3261 section 16.6)."""
    world = World(settings=CallSettings(ring_s=600.0))
    call, phone = await dialled(world)
    phone.answer(180)
    await world.advance(599)
    assert (call.state, phone.new()) == (CallState.RINGING, ["INVITE"])
    await world.advance(1)
    assert (call.end_reason, call.end_detail, phone.new()) == ("no_answer", None, ["CANCEL"])
    phone.answer(200, to="CANCEL")
    phone.answer(487)
    await world.assert_nothing_left()


async def test_proxies_in_a_row_are_answered_one_after_the_other(world: World) -> None:
    call, phone = await dialled(world)
    for realm in ("a", "b"):
        phone.answer(407, headers=f'Proxy-Authenticate: Digest realm="{realm}", nonce="n", qop="auth"')
        await world.settle()
    assert phone.new() == ["INVITE", "ACK", "INVITE", "ACK", "INVITE"]
    assert len(phone.last_request("INVITE").headers.all("Proxy-Authorization")) == 2
    phone.answer(200, sdp())
    await world.settle()
    assert call.state is CallState.ANSWERED
    assert len(phone.last_request("ACK").headers.all("Proxy-Authorization")) == 2


async def test_request_of_a_peer_that_has_not_answered_yet(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(180)
    phone.join(phone.last_request("INVITE"))
    phone.new()
    phone.send("UPDATE", sdp())
    assert phone.new() == ["491"]
    phone.send("INFO")
    phone.send("NOTIFY")
    assert phone.new() == ["200", "481"]
    assert call.state is CallState.RINGING


async def test_calls_of_both_directions_use_the_same_hold(world: World) -> None:
    call, phone = await answered(world)
    phone.send("INVITE", sdp(direction="sendonly", version=2))
    await world.settle()
    assert audio_of(phone.last.body).direction == "recvonly"
    assert (await types_of(call))[-1] == "held"


async def test_call_that_cannot_be_sent_again_leaves_nothing(world: World) -> None:
    call, phone = await dialled(world)
    phone.answer(180)
    world.agent._transactions._limit = 1
    phone.answer(401, headers=CHALLENGE.format("one"))
    await world.settle()
    assert call.end_reason == "too_many_transactions"
    world.agent._transactions._limit = 4096
    await world.assert_nothing_left()
