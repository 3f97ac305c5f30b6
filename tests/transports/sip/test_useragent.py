"""What the user agent makes of what arrives outside of calls, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import ip_network

import pytest

from rtc_server.errors import EngineDraining
from rtc_server.transports.sip.call.call import CallState
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.negotiation.agreedmedia import MediaPolicy
from rtc_server.transports.sip.trunk.numbers import NumberRule
from rtc_server.transports.sip.trunk.patterns import Pattern
from tests.transports.sip.call.fakes import TRUNK, World
from tests.transports.sip.call.phone import US, Phone, sdp


@pytest.fixture
def world() -> World:
    return World()


async def test_options_of_a_trunk_is_answered_and_forgotten(world: World) -> None:
    phone = world.phone()
    phone.send("OPTIONS")
    assert phone.new() == ["200"]
    assert {"INVITE", "BYE", "OPTIONS"} <= set(phone.last.headers.all("Allow"))
    assert phone.last.headers.get("Accept") == "application/sdp"
    assert "timer" in phone.last.headers.all("Supported")
    await world.assert_nothing_left()


async def test_options_while_draining_takes_the_server_out(world: World) -> None:
    world.agent.drain()
    phone = world.phone()
    phone.send("OPTIONS")
    assert phone.new() == ["503"]
    assert phone.last.headers.get("Retry-After") == "30"


async def test_options_says_whether_the_engine_is_there(world: World) -> None:
    phone = world.phone()
    world.house.engine.ready = False
    phone.send("OPTIONS")
    assert phone.new() == ["503"]
    world.house.engine.ready = True
    world.house.engine.draining = True
    phone.send("OPTIONS")
    assert phone.new() == ["503"]


async def test_full_server_stays_in_and_refuses_calls_one_by_one() -> None:
    world = World(slots=1)
    caller = await world.answered()
    phone = world.phone(Flow("udp", US, ("198.51.100.8", 5060)))
    phone.send("OPTIONS")
    assert phone.new() == ["200"]
    phone.invite()
    await world.settle()
    assert phone.new() == ["503"]
    assert phone.last.headers.get("Retry-After") == "5"
    phone.ack_refusal()
    assert len(world.media.ports) == 1
    caller.send("BYE")
    await world.settle()
    other = await world.answered(world.phone(Flow("udp", US, ("198.51.100.9", 5060))))
    assert other.last_response(200)


async def test_draining_server_refuses_calls_and_serves_those_it_has(world: World) -> None:
    phone = await world.answered()
    world.agent.drain()
    other = world.phone(Flow("udp", US, ("198.51.100.8", 5060)))
    other.invite()
    await world.settle()
    assert other.new() == ["503"]
    assert other.last.headers.get("Retry-After") == "30"
    with pytest.raises(EngineDraining):
        await world.agent.dial("+15550123")
    phone.send("INVITE", sdp(direction="sendonly", version=2))
    await world.settle()
    assert phone.new() == ["200"]


async def test_end_of_the_server_hangs_up_on_everyone(world: World) -> None:
    phone = await world.answered()
    ringing = await world.ringing(world.phone(Flow("udp", US, ("198.51.100.8", 5060))))
    calls = list(world.agent.calls)
    await world.agent.close()
    await world.agent.close()
    await world.settle()
    assert phone.new() == ["BYE"]
    assert ringing.last.status == 503
    assert {call.end_reason for call in calls} == {"shutdown"}
    assert world.network.closed
    assert world.media.open_ports == 0


async def test_end_of_the_server_waits_for_the_answers_to_its_byes() -> None:
    world = World()
    world.agent._around = replace(world.agent._around, settings=replace(world.agent._around.settings, goodbye_s=20.0))
    phone = await world.answered()
    closing = asyncio.get_running_loop().create_task(world.agent.close())
    await world.settle()
    assert not closing.done()
    phone.answer(200, to="BYE")
    await closing


async def test_end_of_the_server_waits_until_calls_that_ring_are_called_off() -> None:
    world = World()
    world.agent._around = replace(world.agent._around, settings=replace(world.agent._around.settings, goodbye_s=20.0))
    phone = world.phone()
    await world.agent.dial("+15550123")
    await world.settle()
    closing = asyncio.get_running_loop().create_task(world.agent.close())
    await world.settle()
    phone.answer(100)
    assert phone.new() == ["INVITE", "CANCEL"]
    assert not closing.done()
    phone.answer(487)
    await closing
    assert phone.new() == ["ACK"]


async def test_stranger_hears_nothing(world: World) -> None:
    phone = world.phone(Flow("udp", US, ("203.0.113.66", 5060)))
    for method in ("INVITE", "OPTIONS", "REGISTER", "BYE", "CANCEL"):
        phone.send(method)
    phone.our_tag = "guessed"
    phone.send("BYE")
    await world.settle()
    assert phone.received == []
    assert list(world.agent.calls) == []
    assert len(world.agent._transactions) == 0


async def refused(world: World, text_of: Phone, status: int) -> None:
    await world.settle()
    assert text_of.last.status == status
    assert world.media.ports == []
    assert world.house.engine.prompts == []
    text_of.send("ACK", cseq=text_of.cseq, branch=text_of._branches[text_of.cseq])
    await world.assert_nothing_left()


async def test_extension_that_is_required_and_unknown_is_named(world: World) -> None:
    phone = world.phone()
    phone.invite(headers="Require: precondition, 100rel")
    await refused(world, phone, 420)
    assert phone.last.headers.get("Unsupported") == "precondition"


async def test_extension_that_is_only_supported_is_no_reason_to_refuse(world: World) -> None:
    await world.answered(headers="Supported: precondition, 100rel")


async def test_body_of_another_kind_is_refused(world: World) -> None:
    phone = world.phone()
    phone.invite("hello", "Content-Type: text/plain")
    await refused(world, phone, 415)
    assert phone.last.headers.get("Accept") == "application/sdp"


async def test_compressed_body_is_refused(world: World) -> None:
    phone = world.phone()
    phone.invite(headers="Content-Encoding: gzip")
    await refused(world, phone, 415)
    assert phone.last.headers.get("Accept-Encoding") == "identity"


async def test_caller_that_takes_no_session_description_is_refused(world: World) -> None:
    phone = world.phone()
    phone.invite(headers="Accept: text/plain")
    await refused(world, phone, 406)


async def test_request_that_has_gone_too_far_is_refused(world: World) -> None:
    phone = world.phone()
    text = phone.text("INVITE", sdp(), "", cseq=1, branch="z9hG4bK-far").replace("Max-Forwards: 70", "Max-Forwards: 0")
    phone.cseq, phone._branches[1] = 1, "z9hG4bK-far"
    phone.send_text(text)
    await refused(world, phone, 483)


async def test_uri_of_another_scheme_is_refused(world: World) -> None:
    phone = world.phone()
    phone.target = "http://192.0.2.10/"
    phone.invite()
    await refused(world, phone, 416)


async def test_invite_without_contact_is_malformed(world: World) -> None:
    phone = world.phone()
    phone.invite(headers="Contact: <nonsense>")
    await refused(world, phone, 400)


@pytest.mark.parametrize(("method", "status"), [("REGISTER", 405), ("MESSAGE", 405), ("BYE", 481), ("NOTIFY", 481)])
async def test_other_requests_outside_of_calls(world: World, method: str, status: int) -> None:
    phone = world.phone()
    phone.send(method)
    assert phone.last.status == status
    await world.assert_nothing_left()


async def test_request_of_an_unknown_call(world: World) -> None:
    phone = world.phone()
    phone.our_tag = "unknown"
    phone.send("INVITE", sdp())
    phone.send("BYE")
    assert phone.new() == ["481", "481"]
    assert len(world.agent._transactions) == 0


RULES = (
    NumberRule(Pattern("+15550100"), max_calls=1),
    NumberRule(Pattern("+15550101"), allow_callers=(Pattern("+1777*"),)),
    NumberRule(Pattern("+15550102")),
)


def calling(world: World, number: str, host: str = "198.51.100.7") -> Phone:
    phone = world.phone(Flow("udp", US, (host, 5060)))
    phone.target = f"sip:{number}@192.0.2.10"
    phone.invite()
    return phone


async def test_number_that_nobody_has_is_not_found() -> None:
    world = World(trunks=[replace(TRUNK, numbers=RULES)])
    phone = calling(world, "+15559999")
    await refused(world, phone, 404)


async def test_number_that_is_taken_is_busy_and_others_are_not() -> None:
    world = World(trunks=[replace(TRUNK, numbers=RULES)])
    calling(world, "+15550100")
    await world.settle()
    second = calling(world, "+15550100", "198.51.100.8")
    third = calling(world, "+15550102", "198.51.100.9")
    await world.settle()
    assert second.new() == ["486"]
    assert third.new() == ["100", "180"]


async def test_caller_who_may_not_call_a_number_is_refused() -> None:
    world = World(trunks=[replace(TRUNK, numbers=RULES)])
    phone = calling(world, "+15550101")
    await refused(world, phone, 403)


async def test_trunk_has_as_many_calls_as_it_may() -> None:
    world = World(trunks=[replace(TRUNK, max_calls=1)])
    await world.answered()
    phone = calling(world, "+15550100", "198.51.100.8")
    await world.settle()
    assert phone.new() == ["503"]
    assert phone.last.headers.get("Retry-After") is not None


async def test_calls_of_two_trunks_do_not_count_for_each_other() -> None:
    other = replace(TRUNK, name="other", networks=(ip_network("203.0.113.0/24"),), target=None)
    world = World(trunks=[replace(TRUNK, max_calls=1), other])
    await world.answered()
    phone = calling(world, "+15550100", "203.0.113.5")
    await world.settle()
    assert phone.new() == ["100", "180"]


async def test_withheld_number_stays_withheld(world: World) -> None:
    phone = world.phone()
    phone._from = f'"Anonymous" <sip:anonymous.invalid>;tag={phone.tag}'
    phone.invite(headers="Privacy: id\r\nP-Asserted-Identity: <sip:+15550198@198.51.100.7>")
    await world.settle()
    assert world.call.caller is None
    assert world.call.state is CallState.RINGING


async def test_odd_headers_are_understood_and_given_back(world: World) -> None:
    phone = world.phone()
    phone.send_text(
        "\r\n".join(
            [
                "INVITE sip:agent@192.0.2.10 SIP/2.0",
                "v: SIP/2.0/UDP 198.51.100.7;branch=z9hG4bK671a454b;rport",
                'f: "" <sip:xxx@198.51.100.7>;tag=671a454b',
                't: "Ünï \\"Q\\" Bot" <sip:agent@192.0.2.10>;epid=a22edc020e',
                "i: 671a454b5a66539c644a",
                "CSeq:  1   INVITE",
                "m: <sip:+358-555-1234567;postd=pp22@198.51.100.7;user=phone>",
                "MAX-FORWARDS: 70",
                "Subject: folded",
                " header",
                "c: application/sdp",
                f"Content-Length: {len(sdp())}",
                "",
                sdp(),
            ]
        )
    )
    await world.settle()
    assert phone.new() == ["100", "180"]
    ringing = phone.last
    assert ringing.headers.get("Call-ID") == "671a454b5a66539c644a"
    assert ringing.headers.get("From") == '"" <sip:xxx@198.51.100.7>;tag=671a454b'
    assert (ringing.headers.get("To") or "").startswith('"Ünï \\"Q\\" Bot" <sip:agent@192.0.2.10>;epid=a22edc020e;tag=')
    world.call.hangup()


async def test_offerless_invite_through_a_proxy_over_tls(world: World) -> None:
    flow = Flow("tls", US, ("198.51.100.9", 5567))
    phone = world.phone(flow)
    via = "SIP/2.0/UDP 198.51.100.8:5060;received=198.51.100.8;branch=z9hG4bK3597.0"
    text = phone.text("INVITE", "", "", cseq=1, branch="z9hG4bK2c9c.0a54949b.0")
    phone.send_text(text.replace("Max-Forwards", f"Via: {via}\r\nMax-Forwards", 1))
    await world.settle()
    await world.tick(2)
    ok = phone.last_response(200)
    assert ok.headers.all("Via")[1] == via
    assert ok.headers.all("Via")[0].startswith("SIP/2.0/TLS 198.51.100.9:5567;")
    assert b"m=audio" in ok.body
    assert ok.headers.get("Contact") == "<sip:192.0.2.10:5060;transport=tls>"


async def test_request_of_a_trunk_that_says_two_things_is_told(world: World) -> None:
    phone = world.phone()
    phone.send_text(phone.text("OPTIONS", "", "Call-ID: another", cseq=1, branch="z9hG4bK-x"))
    await world.settle()
    assert phone.new() == ["400"]


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\r\n\r\n",
        b"\x00" * 50,
        b"INVITE",
        b"SIP/2.0 200 OK\r\n\r\n",
        b"INVITE sip:a SIP/2.0\r\n\r\n",
        b"\xff" * 999,
    ],
)
async def test_listener_lives_on_whatever_comes(world: World, datagram: bytes) -> None:
    phone = world.phone()
    world.network.deliver(datagram, phone.flow)
    await world.answered(phone)


async def test_malformed_request_of_a_trunk_is_told(world: World) -> None:
    phone = world.phone()
    phone.send_text(phone.text("OPTIONS", "", "", cseq=1, branch="z9hG4bK-x").replace("CSeq: 1 OPTIONS", "CSeq: x"))
    await world.settle()
    assert phone.new() == ["400"]


async def test_stray_ack_is_passed_over(world: World) -> None:
    phone = world.phone()
    phone.send("ACK", cseq=1)
    phone.our_tag = "guessed"
    phone.send("ACK", cseq=1)
    assert phone.received == []


async def test_ended_call_can_be_looked_up_for_a_while(world: World) -> None:
    phone = await world.answered()
    call = world.call
    phone.send("BYE")
    await world.settle()
    assert world.agent.calls.get(call.id) is call
    assert list(world.agent.calls) == []
    await world.advance(61)
    assert world.agent.calls.get(call.id) is None


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("Max-Forwards: 70", "Call-ID: another"),
        ("From: ", 'From: """""<sip:a@b>\r\nX-From: '),
        ("CSeq: 1 OPTIONS", "CSeq: OPTIONS"),
    ],
)
async def test_malformed_request_of_a_stranger_hears_nothing(world: World, line: str, instead: str) -> None:
    phone = world.phone(Flow("udp", US, ("203.0.113.66", 5060)))
    trunk = world.phone()
    for sender in (phone, trunk):
        text = sender.text("OPTIONS", "", "", cseq=1, branch="z9hG4bK-x")
        assert line in text
        sender.send_text(text.replace(line, instead, 1))
    await world.settle()
    assert trunk.last.status == 400
    assert phone.received == []


async def test_trunk_that_must_be_encrypted_is_offered_keys_and_nothing_plain() -> None:
    world = World(trunks=[replace(TRUNK, media=MediaPolicy(srtp="require"))])
    phone = await world.ringing(body="")
    await world.tick(2)
    assert b"m=audio 40000 RTP/SAVP " in phone.last_response(200).body
    assert b"a=crypto:1 " in phone.last_response(200).body
    world.call.hangup()
    plain = await world.ringing(world.phone(Flow("udp", US, ("198.51.100.8", 5060))))
    assert plain.last.status == 488
