"""A call that comes in, up to the ACK."""

from __future__ import annotations

import asyncio

import pytest

from rtc_server.engine.client import Live
from rtc_server.transports.sip.call.call import CallState
from rtc_server.transports.sip.call.surroundings import CallSettings
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.trunk.webhook import Accept, Reject
from tests.transports.sip.call.fakes import FakeWebhook, World, audio_of, events_of
from tests.transports.sip.call.phone import FLOW, THEM, US, sdp


async def test_call_rings_while_the_agent_gets_ready_and_is_answered_then(world: World) -> None:
    phone = world.phone()
    phone.invite()
    await world.settle()
    assert phone.new() == ["100", "180"]
    assert world.call.state is CallState.RINGING
    assert world.leg.live is Live.NO
    await world.tick()
    assert phone.new() == ["200"]
    answer = audio_of(phone.last.body)
    assert answer.formats == ("0", "101")
    assert answer.port == world.media.ports[0].local.rtp_port
    assert world.leg.live is Live.YES
    phone.ack()
    assert world.call.state is CallState.ANSWERED
    assert world.call.session_id is not None
    await world.tick(3)
    assert len(world.leg.written) > 0
    await world.advance(3)
    assert phone.new() == []


async def test_answer_says_what_we_can_do_and_where_we_are(world: World) -> None:
    phone = await world.answered()
    ok = phone.last_response(200)
    assert ok.headers.get("Contact") == "<sip:192.0.2.10:5060>"
    assert "UPDATE" in ok.headers.all("Allow")
    assert "timer" in ok.headers.all("Supported")
    assert ok.headers.get("Content-Type") == "application/sdp"


async def test_bye_of_the_caller_frees_everything(world: World) -> None:
    phone = await world.answered()
    call = world.call
    phone.send("BYE", headers='Reason: Q.850;cause=16;text="bye"')
    await world.settle()
    assert phone.new() == ["200"]
    assert call.end_reason == "peer_closed"
    assert (await events_of(call))[-1] == {
        "type": "ended",
        "reason": "peer_closed",
        "detail": 'Q.850;cause=16;text="bye"',
    }
    await world.assert_nothing_left()
    assert phone.new() == []


async def test_hang_up_says_bye_with_a_reason(world: World) -> None:
    phone = await world.answered()
    world.call.hangup()
    await world.settle()
    assert phone.new() == ["BYE"]
    assert phone.last_request("BYE").headers.get("Reason") == 'Q.850;cause=16;text="Normal call clearing"'
    assert world.media.open_ports == 0
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_bye_without_an_answer_is_given_up(world: World) -> None:
    phone = await world.answered()
    world.call.hangup()
    await world.advance(40)
    assert phone.count("BYE") == 11
    await world.assert_nothing_left()


async def test_session_that_closes_itself_hangs_up(world: World) -> None:
    phone = await world.answered()
    call = world.call
    next(iter(world.house.registry)).close("idle")
    await world.settle()
    assert phone.new() == ["BYE"]
    assert call.end_reason == "idle"
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_cancel_while_it_rings_ends_in_487(world: World) -> None:
    phone = await world.ringing()
    call = world.call
    phone.new()
    phone.cancel('Reason: SIP;cause=200;text="Call completed elsewhere"')
    await world.settle()
    assert sorted(phone.new()) == ["200", "487"]
    assert call.end_reason == "cancelled"
    assert phone.last_response(487).headers.get("To") == phone.last_response(180).headers.get("To")
    phone.ack_refusal()
    await world.assert_nothing_left()


async def test_cancel_behind_the_answer_changes_nothing(world: World) -> None:
    phone = await world.ringing()
    await world.tick(2)
    phone.new()
    phone.cancel()
    await world.settle()
    assert phone.new() == ["200"]
    assert "CANCEL" in (phone.last.headers.get("CSeq") or "")
    assert world.call.state is CallState.ANSWERED
    phone.ack()
    phone.send("BYE")
    await world.assert_nothing_left()


async def test_cancel_while_the_application_thinks_frees_everything() -> None:
    webhook = FakeWebhook(waits=asyncio.Event())
    world = World(webhook=webhook)
    phone = await world.ringing()
    assert phone.new() == ["100"]
    phone.cancel()
    await world.settle()
    assert sorted(phone.new()) == ["200", "487"]
    assert webhook.cancelled
    assert world.house.engine.prompts == []
    phone.ack_refusal()
    await world.assert_nothing_left()


async def test_cancel_while_a_slot_is_reserved_gives_it_back(world: World) -> None:
    gate, reserve = asyncio.Event(), world.house.engine.reserve

    async def slow(prompt: object) -> object:
        await gate.wait()
        return await reserve(prompt)  # type: ignore[arg-type]

    world.house.engine.reserve = slow  # type: ignore[assignment,method-assign]
    phone = await world.ringing()
    phone.cancel()
    await world.settle()
    assert len(world.agent._tasks) == 1
    gate.set()
    await world.settle()
    phone.ack_refusal()
    await world.assert_nothing_left()


async def test_invite_that_comes_again_makes_no_second_call(world: World) -> None:
    phone = await world.ringing()
    phone.new()
    for _ in range(3):
        phone.again("INVITE", sdp())
    await world.settle()
    assert phone.new() == ["180", "180", "180"]
    assert len(world.agent.calls) == 1
    assert len(world.house.engine.leases) == 1


async def test_invite_that_comes_over_another_path_is_a_loop(world: World) -> None:
    phone = await world.ringing()
    phone.new()
    phone.our_tag = None
    phone.send("INVITE", sdp(), cseq=phone.cseq, branch="z9hG4bK-another")
    await world.settle()
    assert phone.new() == ["482"]
    assert len(world.agent.calls) == 1


async def test_answer_is_repeated_until_the_ack_and_then_no_more(world: World) -> None:
    phone = await world.ringing()
    await world.tick(2)
    await world.advance(4)
    assert phone.count("200") == 4  # at 0, 0.5, 1.5, 3.5
    phone.ack()
    await world.advance(31)
    assert phone.count("200") == 4


async def test_connection_that_brings_the_ack_is_the_one_that_is_kept(world: World) -> None:
    first, second = (Flow("tcp", US, (THEM[0], port), port) for port in (40_001, 40_002))
    phone = await world.ringing(world.phone(first))
    await world.tick(2)
    assert world.network.held == [first]
    phone.flow = second
    phone.ack()
    assert world.network.held == [second]


async def test_lost_ack_ends_the_call_with_a_bye(world: World) -> None:
    phone = await world.ringing()
    call = world.call
    await world.tick(2)
    await world.advance(31.9)
    assert call.state is CallState.ANSWERED
    assert "BYE" not in phone.new()
    await world.advance(0.2)
    assert phone.new() == ["BYE"]
    assert call.end_reason == "ack_lost"
    assert world.house.engine.leases == []
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_hang_up_before_the_ack_waits_for_it_with_its_bye(world: World) -> None:
    phone = await world.ringing()
    await world.tick(2)
    world.call.hangup()
    await world.settle()
    assert "BYE" not in phone.new()
    assert world.media.open_ports == 0
    phone.ack()
    await world.settle()
    assert phone.new() == ["BYE"]
    phone.answer(200, to="BYE")
    await world.advance(10)
    assert phone.new() == []
    await world.assert_nothing_left()


async def test_bye_before_the_ack_stops_the_answer(world: World) -> None:
    phone = await world.ringing()
    await world.tick(2)
    phone.new()
    phone.send("BYE")
    await world.advance(10)
    assert phone.new() == ["200"]
    assert "BYE" in (phone.last.headers.get("CSeq") or "")
    await world.assert_nothing_left()


async def test_bye_while_it_rings_ends_the_invite_too(world: World) -> None:
    phone = await world.ringing()
    phone.new()
    invited = phone.cseq
    phone.send("BYE")
    await world.settle()
    assert sorted(phone.new()) == ["200", "487"]
    phone.send("ACK", cseq=invited, branch=phone._branches[invited])
    await world.assert_nothing_left()


async def test_hang_up_while_it_rings_declines(world: World) -> None:
    phone = await world.ringing()
    phone.new()
    world.call.hangup()
    await world.settle()
    assert phone.new() == ["603"]
    phone.ack_refusal()
    await world.assert_nothing_left()


async def test_agent_that_never_gets_ready_is_given_up(world: World) -> None:
    phone = await world.ringing()
    call = world.call
    await world.advance(30)
    assert phone.last.status == 503
    assert call.end_reason == "not_ready"
    phone.ack_refusal()
    await world.assert_nothing_left()


async def test_offer_that_cannot_be_taken_is_refused_without_a_slot(world: World) -> None:
    phone = await world.ringing(body=sdp("18 G729/8000"))
    assert phone.new() == ["100", "488"]
    assert (phone.last.headers.get("Warning") or "").startswith("305 ")
    (call,) = world.agent.calls.recently_ended()
    assert call.end_detail == "none of opus, G722, PCMU, PCMA in g729/8000"
    assert world.media.ports == []
    assert world.house.engine.prompts == []
    phone.ack_refusal()
    await world.assert_nothing_left()


async def test_offer_that_is_no_description_is_a_bad_request(world: World) -> None:
    phone = await world.ringing(body="nonsense")
    assert phone.last.status == 400
    phone.ack_refusal()
    await world.assert_nothing_left()


async def test_application_that_accepts_chooses_the_voice() -> None:
    webhook = FakeWebhook(Accept(persona="You are Ada.", voice="bass"))
    world = World(webhook=webhook)
    await world.ringing(headers="X-Customer: 4711\r\nX-Other: no")
    (asked,) = webhook.asked
    assert (asked.trunk, asked.caller, asked.callee, asked.headers) == (
        "carrier",
        "1001",
        "+15550100",
        {"X-Customer": "4711"},
    )
    (prompt,) = world.house.engine.prompts
    assert (prompt.persona, prompt.voice) == ("You are Ada.", "bass")
    assert asked.call_id == world.call.id


async def test_application_that_rejects_chooses_the_status() -> None:
    world = World(webhook=FakeWebhook(Reject(486)))
    phone = await world.ringing()
    assert phone.new() == ["100", "486"]
    (call,) = world.agent.calls.recently_ended()
    assert (call.end_reason, call.end_detail) == ("rejected", "486")
    assert world.house.engine.prompts == []
    phone.ack_refusal()
    await world.assert_nothing_left()


@pytest.mark.parametrize(
    ("accepted", "cause"),
    [
        (Accept(voice="tenor"), "voice 'tenor' is unknown; the engine fake has: alto, bass"),
        (Accept(persona="x" * 100_000), "persona has 100000 characters; the engine fake takes at most 4000"),
    ],
)
async def test_application_that_accepts_with_what_there_is_not_has_not_decided(accepted: Accept, cause: str) -> None:
    world = World(webhook=FakeWebhook(accepted))
    phone = await world.ringing()
    assert phone.new() == ["100", "480"]
    (call,) = world.agent.calls.recently_ended()
    assert call.end_reason == "webhook_failed"
    assert (call.end_detail or "").startswith(cause)
    phone.ack_refusal()
    await world.assert_nothing_left()
    assert world.media.ports == []

    world = World(webhook=FakeWebhook(accepted, on_failure=Accept()))
    await world.ringing()
    (prompt,) = world.house.engine.prompts
    assert (prompt.persona, prompt.voice) == (None, "alto")


async def test_call_that_nobody_decides_about_ends_as_such() -> None:
    world = World(webhook=FakeWebhook(Reject(480, "no answer within 3 s")))
    phone = await world.ringing()
    assert phone.new() == ["100", "480"]
    (call,) = world.agent.calls.recently_ended()
    assert (call.end_reason, call.end_detail) == ("webhook_failed", "no answer within 3 s")


async def test_no_port_is_held_while_the_application_thinks() -> None:
    webhook = FakeWebhook(waits=asyncio.Event())
    world = World(webhook=webhook)
    phone = await world.ringing()
    assert webhook.waits is not None
    assert world.media.ports == []
    webhook.waits.set()
    await world.settle()
    assert phone.new() == ["100", "180"]
    assert world.media.open_ports == 1
    assert world.network.held == [phone.flow]


async def test_offer_that_cannot_be_taken_costs_the_application_nothing() -> None:
    webhook = FakeWebhook()
    phone = await World(webhook=webhook).ringing(body=sdp("18 G729/8000"))
    assert phone.new() == ["100", "488"]
    assert webhook.asked == []


async def test_metadata_and_caller_are_kept_with_the_call(world: World) -> None:
    await world.ringing(headers="X-Customer: 4711\r\nX-Other: no")
    assert world.call.metadata == {"X-Customer": "4711"}
    assert (world.call.caller, world.call.callee, world.call.direction) == ("1001", "+15550100", "inbound")


async def test_offer_may_be_ours_and_the_answer_come_with_the_ack(world: World) -> None:
    phone = await world.ringing(body="")
    await world.tick(2)
    assert "PCMU/8000" in str(audio_of(phone.last.body).attributes)
    assert world.leg.live is Live.NO
    phone.ack(sdp())
    await world.settle()
    assert world.leg.live is Live.YES
    assert world.leg.agreed.audio.codec == "PCMU"
    assert world.leg.agreed.remote_rtp == ("198.51.100.7", 16384)
    assert world.leg.peer_host == "198.51.100.7"


async def test_ack_without_the_awaited_answer_ends_the_call(world: World) -> None:
    phone = await world.ringing(body="")
    call = world.call
    call = world.call
    await world.tick(2)
    phone.new()
    phone.ack()
    await world.settle()
    assert phone.new() == ["BYE"]
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()
    assert (call.end_reason, call.end_detail) == ("media_refused", "the answer has no session description")


async def test_defect_of_ours_ends_this_call_and_no_other(world: World) -> None:
    phone = await world.answered()
    world.leg.fails_on_agree = True
    broken = world.call
    phone.send("INVITE", sdp(port=20000, version=2))
    await world.settle()
    assert broken.end_reason == "internal_error"
    other = world.phone(FLOW)
    await world.answered(other)
    assert world.call.state is CallState.ANSWERED


async def test_record_route_is_given_back_and_followed(world: World) -> None:
    phone = await world.answered(headers="Record-Route: <sip:198.51.100.7;lr>, <sip:198.51.100.9;lr>")
    assert phone.last_response(200).headers.all("Record-Route") == ["<sip:198.51.100.7;lr>", "<sip:198.51.100.9;lr>"]
    world.call.hangup()
    bye = phone.last_request("BYE")
    assert bye.headers.all("Route") == ["<sip:198.51.100.7;lr>", "<sip:198.51.100.9;lr>"]
    assert bye.uri == "sip:1001@198.51.100.7:5060"


async def test_peer_behind_nat_gets_its_bye_where_it_was_seen(world: World) -> None:
    phone = world.phone(contact="<sip:1001@10.9.33.103:5060>")
    await world.answered(phone)
    world.call.hangup()
    await world.settle()
    assert phone.new() == ["BYE"]
    assert phone.last_request("BYE").uri == "sip:1001@10.9.33.103:5060"
    assert world.network.connected == []


async def test_contact_elsewhere_gets_our_requests_directly(world: World) -> None:
    phone = world.phone(contact="<sip:1001@198.51.100.80:5070>")
    await world.answered(phone)
    world.call.hangup()
    await world.settle()
    data, flow = world.network.sent[-1]
    assert data.startswith(b"BYE")
    assert flow.remote == ("198.51.100.80", 5070)


async def test_reliable_provisional_response_only_where_it_is_required(world: World) -> None:
    phone = await world.ringing(headers="Supported: 100rel")
    assert phone.last_response(180).headers.get("RSeq") is None
    other = await world.ringing(headers="Require: 100rel")
    ringing = other.last_response(180)
    assert "100rel" in ringing.headers.all("Require")
    await world.advance(1.6)
    assert other.count("180") == 3
    other.send("PRACK", headers=f"RAck: {ringing.headers.get('RSeq')} 1 INVITE")
    await world.advance(5)
    assert other.count("180") == 3
    assert other.last.status == 200
    other.send("PRACK", headers=f"RAck: {ringing.headers.get('RSeq')} 1 INVITE")
    assert other.last.status == 481


async def test_prack_that_never_comes_ends_the_call() -> None:
    world = World(settings=CallSettings(setup_s=60))
    phone = await world.ringing(headers="Require: 100rel")
    call = world.call
    await world.advance(31.9)
    assert call.state is CallState.RINGING
    await world.advance(0.2)
    assert phone.last.status == 503
    assert call.end_reason == "prack_lost"
