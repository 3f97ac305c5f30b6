"""Session timers in calls: who refreshes, how, and what happens when nobody does."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.call.call import CallState
from rtc_server.transports.sip.call.surroundings import CallSettings
from rtc_server.transports.sip.message.headers import SessionExpires
from tests.transports.sip.call.fakes import World, audio_of
from tests.transports.sip.call.phone import Phone, sdp

TIMER = "Supported: timer\r\nMin-SE: 90\r\nSession-Expires: "


@pytest.fixture
def world() -> World:
    """In which nobody is asked whether he is still there."""
    return World(settings=CallSettings(quiet_s=10_000, goodbye_s=0.0))


async def test_interval_below_the_floor_is_refused_and_the_floor_accepted(world: World) -> None:
    phone = await world.ringing(headers="Supported: timer\r\nSession-Expires: 60")
    assert phone.last.status == 422
    assert phone.last.headers.get("Min-SE") == "90"
    assert world.media.ports == []
    phone.ack_refusal()
    phone.our_tag = None
    await world.answered(phone, headers="Supported: timer\r\nSession-Expires: 90")
    ok = phone.last_response(200)
    assert SessionExpires.parse(ok.headers.get("Session-Expires") or "") == SessionExpires(90, "uac")
    assert "timer" in ok.headers.all("Require")


async def test_interval_that_is_no_number_is_malformed(world: World) -> None:
    phone = await world.ringing(headers="Supported: timer\r\nSession-Expires: soon")
    assert phone.last.status == 400


async def test_updates_keep_the_call_and_their_end_ends_it(world: World) -> None:
    phone = await world.answered(headers=TIMER + "90;refresher=uac")
    call = world.call
    for _ in range(5):
        await world.advance(45)
        phone.send("UPDATE", headers=TIMER + "90;refresher=uac")
        assert phone.new() == ["200"]
        assert (phone.last.headers.get("Session-Expires") or "").startswith("90")
        assert phone.last.body == b""
    assert call.state is CallState.ANSWERED
    await world.advance(59.9)
    assert call.state is CallState.ANSWERED
    await world.advance(0.2)
    assert call.end_reason == "session_expired"
    assert phone.new() == ["BYE"]
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_reinvite_refreshes_too(world: World) -> None:
    phone = await world.answered(headers=TIMER + "90;refresher=uac")
    for _ in range(3):
        await world.advance(50)
        phone.send("INVITE", sdp(), TIMER + "90;refresher=uac")
        await world.settle()
        phone.ack()
    assert world.call.state is CallState.ANSWERED


async def refresh_is_ours(world: World, allow: str) -> Phone:
    return await world.answered(headers=f"{TIMER}90;refresher=uas\r\nAllow: {allow}")


async def test_refresh_that_is_ours_is_an_update_where_the_peer_knows_it(world: World) -> None:
    phone = await refresh_is_ours(world, "INVITE, BYE, UPDATE")
    assert (phone.last_response(200).headers.get("Session-Expires") or "") == "90;refresher=uas"
    for _ in range(4):
        await world.advance(45.1)
        assert phone.new() == ["UPDATE"]
        update = phone.last_request("UPDATE")
        assert update.headers.get("Session-Expires") == "90;refresher=uac"
        assert update.body == b""
        phone.answer(200, headers="Session-Expires: 90;refresher=uac\r\nRequire: timer", to="UPDATE")
    assert world.call.state is CallState.ANSWERED


async def test_refresh_that_is_ours_is_a_reinvite_where_it_does_not(world: World) -> None:
    phone = await refresh_is_ours(world, "INVITE, BYE")
    first = audio_of(phone.last_response(200).body)
    await world.advance(45.1)
    assert phone.new() == ["INVITE"]
    offered = audio_of(phone.last_request("INVITE").body)
    assert (offered.port, offered.direction, offered.formats[0]) == (first.port, "sendrecv", first.formats[0])
    phone.answer(200, sdp(version=2), "Session-Expires: 90;refresher=uac")
    await world.settle()
    assert phone.new() == ["ACK"]
    phone.answer(200, sdp(version=2), "Session-Expires: 90;refresher=uac")
    await world.settle()
    assert phone.new() == ["ACK"]
    await world.advance(44)
    assert world.call.state is CallState.ANSWERED


MOVED = "Contact: <sip:moved@198.51.100.7:5060>\r\nSession-Expires: 90;refresher=uac"


@pytest.mark.parametrize(("allow", "method", "body"), [("INVITE, UPDATE", "UPDATE", ""), ("INVITE", "INVITE", sdp())])
async def test_answer_to_our_refresh_that_names_another_contact_is_followed(
    world: World, allow: str, method: str, body: str
) -> None:
    phone = await refresh_is_ours(world, allow)
    await world.advance(45.1)
    phone.answer(200, body, MOVED, to=method)
    await world.settle()
    world.call.hangup()
    assert phone.last_request("BYE").uri == "sip:moved@198.51.100.7:5060"


async def test_answer_that_refuses_our_refresh_moves_nothing(world: World) -> None:
    phone = await refresh_is_ours(world, "INVITE, UPDATE")
    await world.advance(45.1)
    phone.answer(503, headers=MOVED, to="UPDATE")
    world.call.hangup()
    assert phone.last_request("BYE").uri == "sip:1001@198.51.100.7:5060"


async def test_answer_that_comes_again_does_not_undo_a_later_move(world: World) -> None:
    phone = await refresh_is_ours(world, "INVITE")
    await world.advance(45.1)
    phone.answer(200, sdp())
    await world.settle()
    phone.send("UPDATE", headers="Contact: <sip:later@198.51.100.7:5060>")
    phone.answer(200, sdp())
    await world.settle()
    assert phone.last_request("ACK").uri == "sip:later@198.51.100.7:5060"
    world.call.hangup()
    assert phone.last_request("BYE").uri == "sip:later@198.51.100.7:5060"


async def test_refresh_that_is_refused_is_given_up_with_the_session(world: World) -> None:
    phone = await refresh_is_ours(world, "UPDATE")
    call = world.call
    await world.advance(45.1)
    phone.answer(503, to="UPDATE")
    await world.advance(15)
    assert call.end_reason == "session_expired"


async def test_update_that_is_not_known_after_all_is_replaced_by_a_reinvite(world: World) -> None:
    phone = await refresh_is_ours(world, "UPDATE")
    await world.advance(45.1)
    phone.answer(405, to="UPDATE")
    assert phone.new() == ["UPDATE", "INVITE"]


async def test_interval_that_the_peer_finds_too_short_is_lengthened(world: World) -> None:
    phone = await refresh_is_ours(world, "UPDATE")
    await world.advance(45.1)
    phone.answer(422, headers="Min-SE: 600", to="UPDATE")
    again = phone.last_request("UPDATE")
    assert again.headers.get("Min-SE") == "600"
    assert again.headers.get("Session-Expires") == "600;refresher=uac"
    phone.answer(422, headers="Min-SE: 600", to="UPDATE")
    assert phone.new() == ["UPDATE", "UPDATE"]


async def test_peer_that_finds_every_interval_too_short_is_asked_three_times(world: World) -> None:
    phone = await refresh_is_ours(world, "UPDATE")
    call = world.call
    await world.advance(45.1)
    for minimum_s in range(600, 620):
        phone.answer(422, headers=f"Min-SE: {minimum_s}", to="UPDATE")
    assert phone.new() == ["UPDATE"] * 3
    await world.advance(15)
    assert call.end_reason == "session_expired"


async def test_refresh_that_crosses_one_of_the_peer_is_sent_again_a_little_later(world: World) -> None:
    phone = await refresh_is_ours(world, "INVITE, BYE")
    await world.advance(45.1)
    phone.new()
    phone.send("INVITE", sdp(version=2))
    await world.settle()
    assert phone.new() == ["491"]
    phone.ack_refusal()
    phone.answer(491, to="INVITE")
    assert phone.new() == ["ACK"]
    await world.advance(2.1)
    assert set(phone.new()) == {"INVITE"}
    assert phone.last_request("INVITE").headers.get("CSeq") == "2 INVITE"
    phone.answer(200, sdp(version=2))
    await world.settle()
    assert world.call.state is CallState.ANSWERED
    assert not world.call._media.negotiation.offer_pending  # type: ignore[union-attr]


async def test_timer_that_only_a_proxy_wants_is_kept_by_us(world: World) -> None:
    phone = await world.answered(headers="Session-Expires: 1800\r\nAllow: UPDATE")
    assert phone.last_response(200).headers.get("Session-Expires") == "1800;refresher=uas"
    assert phone.last_response(200).headers.all("Require") == []
    await world.advance(900.2)
    assert phone.new() == ["UPDATE"]


async def test_call_without_a_timer_needs_none(world: World) -> None:
    phone = await world.answered()
    assert phone.last_response(200).headers.get("Session-Expires") is None
    world.leg.last_audio_s = 5000.0
    await world.advance(4000)
    assert phone.new() == []


@pytest.mark.parametrize(
    ("refresher", "sends", "ends"), [("uac", ["UPDATE"], "peer_gone"), ("uas", [], "session_expired")]
)
async def test_callee_says_who_refreshes_a_call_of_ours(
    world: World, refresher: str, sends: list[str], ends: str
) -> None:
    phone = world.phone()
    call = await world.agent.dial("+15550123")
    await world.settle()
    assert phone.last_request("INVITE").headers.get("Session-Expires") == "1800"
    phone.answer(200, sdp(), f"Session-Expires: 200;refresher={refresher}\r\nAllow: UPDATE\r\nRequire: timer")
    await world.settle()
    phone.new()
    await world.advance(100.2)
    assert phone.new() == sends
    await world.advance(70)
    assert call.end_reason == ends
