"""A call whose requests go elsewhere: who is shown there that we know the password, and what is held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rtc_server.errors import TransferRefused
from rtc_server.transports.sip.call.call import Call
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.network.target import Target
from tests.transports.sip.call.fakes import TRUNK, World
from tests.transports.sip.call.phone import THEM, US, Phone, sdp
from tests.transports.sip.call.test_indialog import transfer

PROXY_ASKS = 'Proxy-Authenticate: Digest realm="{}", nonce="n", qop="auth", algorithm=MD5'


async def test_challenged_bye_is_sent_again_with_the_password(world: World) -> None:
    phone = await world.answered()
    world.call.hangup()
    phone.answer(407, headers=PROXY_ASKS.format("r"), to="BYE")
    await world.settle()
    assert phone.new() == ["BYE", "BYE"]
    again = phone.last_request("BYE")
    assert (again.headers.get("Proxy-Authorization") or "").startswith("Digest ")
    assert again.headers.get("CSeq") == "2 BYE"
    phone.answer(200, to="BYE")
    await world.assert_nothing_left()


ELSEWHERE = ("203.0.113.66", 5070)
CONTACT_ELSEWHERE = f"<sip:1001@{ELSEWHERE[0]}:{ELSEWHERE[1]}>"


async def test_digest_of_the_password_is_not_given_to_whoever_asks_in_the_name_of_the_trunk(world: World) -> None:
    phone = await world.answered(world.phone(contact=CONTACT_ELSEWHERE))
    stranger = world.phone(Flow("udp", US, ELSEWHERE))
    call = world.call
    task = await transfer(world, phone)
    stranger.answer(407, headers=PROXY_ASKS.format("the trunk's"), to="REFER")
    with pytest.raises(TransferRefused, match="407"):
        await task
    call.hangup()
    stranger.answer(407, headers=PROXY_ASKS.format("the trunk's"), to="BYE")
    await world.settle()
    assert stranger.new() == ["REFER", "BYE"]
    await world.assert_nothing_left()


NAMED = replace(TRUNK, networks=(), target=Target("udp", "sip.carrier.example", 5060))


async def dialled(world: World, contact: str, moves_to: str = THEM[0]) -> tuple[Phone, Call]:
    """An answered call to a trunk of which the settings know a name only; its phone is at the trunk's address.
    `moves_to`: what the name stands for when the INVITE is on its way."""
    world.network.addresses["sip.carrier.example"] = THEM[0]
    phone = world.phone(contact=contact)
    call = await world.agent.dial("+15550123")
    await world.settle()
    world.network.addresses["sip.carrier.example"] = moves_to
    phone.answer(401, headers=PROXY_ASKS.format("r").replace("Proxy", "WWW"))
    phone.answer(200, sdp())
    await world.settle()
    assert phone.last_request("INVITE").headers.get("Authorization") is not None
    return phone, call


async def hang_up_with_the_password(world: World, asks: Phone, call: Call) -> None:
    """Who asks for it in answer to our BYE gets it."""
    call.hangup()
    await world.settle()
    asks.answer(407, headers=PROXY_ASKS.format("r"), to="BYE")
    await world.settle()
    assert asks.last_request("BYE").headers.get("Proxy-Authorization") is not None
    asks.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_host_that_our_invite_went_to_is_the_trunks() -> None:
    world = World(trunks=[NAMED])
    phone, call = await dialled(world, f"<sip:1001@{THEM[0]}>")
    assert phone.last_request("ACK").headers.get("Authorization") is not None
    await hang_up_with_the_password(world, phone, call)


async def test_name_of_the_target_leads_to_the_trunk_at_whatever_address() -> None:
    world = World(trunks=[NAMED])
    other = world.phone(Flow("udp", US, (ELSEWHERE[0], 5060)))
    _, call = await dialled(world, "<sip:1001@SIP.carrier.example:5060>", ELSEWHERE[0])
    assert other.last_request("ACK").headers.get("Authorization") is not None
    await hang_up_with_the_password(world, other, call)


async def test_ack_brings_what_the_trunk_was_given_to_nobody_else() -> None:
    world = World(trunks=[NAMED])
    stranger = world.phone(Flow("udp", US, ELSEWHERE))
    _, call = await dialled(world, CONTACT_ELSEWHERE)
    assert stranger.new() == ["ACK"]
    assert "Authorization" not in stranger.last_request("ACK").headers
    call.hangup()
    await world.assert_nothing_left()


@pytest.mark.parametrize(
    ("headers", "port"),
    [
        ("Contact: <sip:1001@198.51.100.7:5080>", 5080),
        ("Contact: <sip:1001@203.0.113.66:5080>\r\nRecord-Route: <sip:198.51.100.7:5090;lr>", 5090),
    ],
)
async def test_ack_and_bye_of_our_call_go_to_the_port_that_its_answer_names(
    world: World, headers: str, port: int
) -> None:
    phone = world.phone()
    other = world.phone(Flow("udp", US, (THEM[0], port)))
    call = await world.agent.dial("+15550123")
    await world.settle()
    phone.answer(200, sdp(), headers)
    await world.settle()
    assert (phone.new(), other.new()) == (["INVITE"], ["ACK"])
    call.hangup()
    assert (phone.new(), other.new()) == ([], ["BYE"])
    other.answer(200, to="BYE")
    await world.assert_nothing_left()


async def test_way_that_a_call_has_moved_to_is_held_until_the_call_is_over(world: World) -> None:
    phone = await world.answered(world.phone(contact=CONTACT_ELSEWHERE))
    elsewhere = world.phone(Flow("udp", US, ELSEWHERE))
    call = world.call
    assert world.network.held == [phone.flow]
    await world.advance(21)
    assert set(elsewhere.new()) == {"OPTIONS"}
    assert world.network.held == [phone.flow, elsewhere.flow]
    elsewhere.answer(200, to="OPTIONS")
    call.hangup()
    assert world.network.held == [phone.flow, elsewhere.flow]
    elsewhere.answer(200, to="BYE")
    assert world.network.held == []
    await world.assert_nothing_left()


async def test_peer_that_hangs_up_while_its_new_way_is_looked_for_leaves_nothing_held(world: World) -> None:
    phone = await world.answered(world.phone(contact=CONTACT_ELSEWHERE))
    world.call.hangup()  # its BYE waits for the connection
    phone.send("BYE")
    await world.settle()
    await world.assert_nothing_left()
