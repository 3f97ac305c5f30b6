"""A slot that arrives when nobody wants it any more."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from rtc_server.session.session import Session
from tests.transports.sip.call.fakes import World


@pytest.mark.parametrize("turns", range(1, 7))
async def test_call_that_is_cancelled_on_its_way_to_a_slot_keeps_no_session(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    made: list[weakref.ref[Session]] = []
    add = world.house.registry.add

    def note(session: Session) -> None:
        made.append(weakref.ref(session))
        add(session)

    monkeypatch.setattr(world.house.registry, "add", note)
    phone = world.phone()
    phone.invite()
    for _ in range(turns):
        await asyncio.sleep(0)
    phone.cancel()
    phone.ack_refusal()
    await world.settle()
    assert world.agent.calls.recently_ended()
    gc.collect()
    assert [session for session in made if session() is not None] == []
    await world.assert_nothing_left()
