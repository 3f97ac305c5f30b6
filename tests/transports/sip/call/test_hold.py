"""Who holds, and who only talks: what the agent hears of them, and what the application is told."""

from __future__ import annotations

import pytest

from tests.transports.sip.call.fakes import World, events_of
from tests.transports.sip.call.phone import Phone, sdp


async def offer(world: World, phone: Phone, method: str, direction: str, version: int) -> None:
    phone.send(method, sdp(direction=direction, version=version))
    await world.settle()
    assert phone.last.status == 200
    if method == "INVITE":
        phone.ack()


async def told(world: World) -> list[str]:
    return [event["type"] for event in await events_of(world.call) if event["type"] in ("held", "resumed")]


@pytest.mark.parametrize("method", ["INVITE", "UPDATE"])
async def test_who_only_ever_talks_is_heard_behind_every_refresh(world: World, method: str) -> None:
    phone = await world.answered(body=sdp(direction="sendonly"))
    assert world.leg.expects_audio
    for _ in range(3):
        await offer(world, phone, method, "sendonly", 1)
        phone.send("UPDATE")
        await world.settle()
        assert world.leg.expects_audio
    assert await told(world) == []


async def test_whom_we_call_and_who_only_ever_talks_is_heard_behind_a_refresh(world: World) -> None:
    phone = world.phone()
    await world.agent.dial("+15550123")
    await world.settle()
    phone.answer(183, sdp())
    phone.answer(200, sdp(direction="sendonly"))
    await world.settle()
    phone.join(phone.last_request("INVITE"))
    await offer(world, phone, "UPDATE", "sendonly", 2)
    assert world.leg.expects_audio
    assert await told(world) == []


async def test_who_only_talks_is_asked_as_soon_as_any_whether_it_lives(world: World) -> None:
    phone = await world.answered(body=sdp(direction="sendonly"))
    await offer(world, phone, "UPDATE", "sendonly", 1)
    phone.new()
    await world.advance(41)
    assert "OPTIONS" in phone.new()


async def test_music_is_kept_from_the_agent_until_the_other_end_listens_again(world: World) -> None:
    phone = await world.answered()
    for version, direction in enumerate(("sendonly", "sendonly", "inactive", "sendonly"), 2):
        await offer(world, phone, "INVITE", direction, version)
        phone.send("UPDATE")
        await world.settle()
        assert not world.leg.expects_audio
    assert await told(world) == ["held"]
    await offer(world, phone, "INVITE", "sendrecv", 9)
    assert world.leg.expects_audio
    assert await told(world) == ["held", "resumed"]


async def test_who_has_listened_once_holds_when_it_does_no_more(world: World) -> None:
    phone = await world.answered(body=sdp(direction="sendonly"))
    await offer(world, phone, "INVITE", "sendrecv", 2)
    await offer(world, phone, "INVITE", "sendonly", 3)
    assert not world.leg.expects_audio
    assert await told(world) == ["held"]


async def test_call_of_silence_is_on_hold_until_somebody_talks(world: World) -> None:
    phone = await world.answered(body=sdp(direction="inactive"))
    assert await told(world) == ["held"]
    await offer(world, phone, "INVITE", "sendonly", 2)
    assert world.leg.expects_audio
    assert await told(world) == ["held", "resumed"]


async def test_request_without_a_description_changes_nothing_for_the_media(world: World) -> None:
    phone = await world.answered()
    agreements = len(world.leg.agreements)
    phone.send("UPDATE")
    phone.send("INVITE")
    await world.settle()
    assert phone.last.body  # the offer is ours
    assert len(world.leg.agreements) == agreements
    phone.ack(sdp(version=2))
    await world.settle()
    assert len(world.leg.agreements) == agreements + 1
