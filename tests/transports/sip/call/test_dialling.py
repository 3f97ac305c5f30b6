"""What is asked for when somebody is to be called, and the slot that it takes: before there is a call."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from rtc_server.errors import (
    BadRequest,
    EngineDraining,
    EngineFull,
    InvalidNumber,
    NumberNotAllowed,
    TrunkBusy,
    UnknownVoice,
)
from rtc_server.metrics import PHONE_CALLS_ENDED
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.trunk.patterns import Pattern
from tests.logs import captured_logs
from tests.transports.sip.call.fakes import TRUNK, World
from tests.transports.sip.call.phone import US
from tests.transports.sip.call.test_outbound import dialled


def slow_engine(world: World) -> asyncio.Event:
    """It reserves no slot before this is set."""
    gate, reserve = asyncio.Event(), world.house.engine.reserve

    async def slow(prompt: object) -> object:
        await gate.wait()
        return await reserve(prompt)  # type: ignore[arg-type]

    world.house.engine.reserve = slow  # type: ignore[assignment,method-assign]
    return gate


async def test_full_server_refuses_to_dial(world: World) -> None:
    for _ in range(4):
        await dialled(world)
    with pytest.raises(EngineFull):
        await world.agent.dial("+15550123")
    assert world.media.open_ports == 4


async def test_call_that_does_not_come_about_was_none(world: World) -> None:
    feed = world.agent.calls.feed.subscribe()
    ended = PHONE_CALLS_ENDED.labels("outbound", "engine_full")
    before = ended._value.get()
    with captured_logs() as logs:
        with pytest.raises(UnknownVoice):
            await world.agent.dial("+15550123", voice="tenor")

        async def full(prompt: object) -> object:
            raise EngineFull("full")

        world.house.engine.reserve = full  # type: ignore[assignment,method-assign]
        with pytest.raises(EngineFull):
            await world.agent.dial("+15550123")
    assert list(world.agent.calls) == world.agent.calls.recently_ended() == []
    assert list(feed._waiting) == []
    assert [entry for entry in logs if "call_id" in entry] == []
    assert ended._value.get() == before
    await world.assert_nothing_left()


async def test_dialling_that_is_given_up_leaves_nothing(world: World) -> None:
    gate = slow_engine(world)
    task = asyncio.get_running_loop().create_task(world.agent.dial("+15550123"))
    await world.settle()
    task.cancel()
    await world.settle()
    gate.set()
    await world.assert_nothing_left()


async def test_call_that_waits_for_its_slot_is_none_yet_and_counts_for_the_limits() -> None:
    world = World(trunks=[replace(TRUNK, max_calls=1)])
    gate = slow_engine(world)
    world.phone()
    task = asyncio.get_running_loop().create_task(world.agent.dial("+15550123"))
    await world.settle()
    assert list(world.agent.calls) == world.agent.calls.recently_ended() == []
    with pytest.raises(TrunkBusy):
        await world.agent.dial("+15550123")
    phone = world.phone(Flow("udp", US, ("198.51.100.8", 5060)))
    phone.invite()
    await world.settle()
    assert phone.last.status == 503
    phone.ack_refusal()
    gate.set()
    call = await task
    assert list(world.agent.calls) == [call]
    with pytest.raises(TrunkBusy):
        await world.agent.dial("+15550123")
    call.hangup()
    await world.advance(70)
    world.phone()
    await world.agent.dial("+15550123")


@pytest.mark.parametrize("fails", [EngineFull("full"), RuntimeError("a defect")])
async def test_place_of_a_call_that_did_not_come_about_is_free_again(fails: Exception) -> None:
    world = World(trunks=[replace(TRUNK, max_calls=1)])
    reserve = world.house.engine.reserve

    async def failing(prompt: object) -> object:
        raise fails

    world.house.engine.reserve = failing  # type: ignore[assignment,method-assign]
    with pytest.raises(type(fails)):
        await world.agent.dial("+15550123")
    world.house.engine.reserve = reserve  # type: ignore[method-assign]
    await dialled(world)


async def test_end_of_the_server_while_a_slot_is_reserved_leaves_no_call(world: World) -> None:
    gate = slow_engine(world)
    task = asyncio.get_running_loop().create_task(world.agent.dial("+15550123"))
    await world.settle()
    world.agent.drain()
    gate.set()
    with pytest.raises(EngineDraining):
        await task
    assert list(world.agent.calls) == world.agent.calls.recently_ended() == []
    await world.assert_nothing_left()


@pytest.mark.parametrize(
    ("to", "error"),
    [("+4912345", NumberNotAllowed), ("", BadRequest), ("+1555 0", BadRequest), ("+1555\r\nX: y", BadRequest)],
)
async def test_numbers_that_may_not_be_called_cost_nothing(world: World, to: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await world.agent.dial(to)
    assert world.house.engine.prompts == []
    assert world.media.ports == []


@pytest.mark.parametrize("to", ["+1555*", "+15550*100", "1555*", "sip:+1555*@a.example", "+1555#"])
async def test_pattern_is_no_number_that_can_be_called(world: World, to: str) -> None:
    with pytest.raises(InvalidNumber, match="is a pattern, not a number") as refused:
        await world.agent.dial(to)
    assert refused.value.http_status == 422
    assert list(world.agent.calls) == world.agent.calls.recently_ended() == []


@pytest.mark.parametrize("code", ["*97", "#31#", "*21*15550123#"])
async def test_code_of_a_pbx_is_dialled_as_it_is(code: str) -> None:
    world = World(trunks=[replace(TRUNK, dialable=(Pattern("*"),))])
    _, phone = await dialled(world, code)
    assert phone.last_request("INVITE").uri == f"sip:{code.replace('#', '%23')}@198.51.100.7:5060"


@pytest.mark.parametrize("trunk", [None, "carrier"])
async def test_where_no_trunk_takes_calls_it_is_said_what_to_do(trunk: str | None) -> None:
    world = World(trunks=[replace(TRUNK, target=None)])
    with pytest.raises(BadRequest, match="no trunk of this server has a `target`") as refused:
        await world.agent.dial("+15550123", trunk=trunk)
    assert "[[sip.trunks]]" in refused.value.hint


async def test_unknown_trunk_is_refused(world: World) -> None:
    with pytest.raises(BadRequest, match="nobody"):
        await world.agent.dial("+15550123", trunk="nobody")


async def test_metadata_named_like_headers_goes_along(world: World) -> None:
    phone = world.phone()
    call = await world.agent.dial("+15550123", metadata={"X-Ticket": "42", "note": "not sent"})
    await world.settle()
    invite = phone.last_request("INVITE")
    assert invite.headers.get("X-Ticket") == "42"
    assert invite.headers.get("note") is None
    assert call.metadata == {"X-Ticket": "42", "note": "not sent"}
    with pytest.raises(BadRequest):
        await world.agent.dial("+15550123", metadata={"X-Ticket": "42\r\nTo: x"})
