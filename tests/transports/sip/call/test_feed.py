"""What applications are told of a call, and what becomes of those that do not listen."""

from __future__ import annotations

import asyncio

import pytest

from rtc_server.errors import TooManySubscribers
from rtc_server.events import BargeIn, InputTranscript, Numbered, ResponseDelta
from rtc_server.transports.sip.call.feed import MAX_SUBSCRIBERS, MAX_WAITING, CallFeed
from tests.transports.sip.call.fakes import World


async def test_events_come_in_order_and_end_with_the_call() -> None:
    feed = CallFeed()
    subscription = feed.subscribe()
    feed.tell("ringing")
    feed.tell("text", text="hello")
    feed.tell("ended", reason="hangup")
    assert [event async for event in subscription] == [
        {"type": "ringing"},
        {"type": "text", "text": "hello"},
        {"type": "ended", "reason": "hangup"},
    ]


async def test_who_comes_late_is_told_the_states_and_not_the_words() -> None:
    feed = CallFeed()
    for kind in ("ringing", "answered", "text", "dtmf", "held", "ended"):
        feed.tell(kind)
    assert [event["type"] async for event in feed.subscribe()] == ["ringing", "answered", "held", "ended"]


async def test_who_waits_is_woken() -> None:
    feed = CallFeed()
    subscription = feed.subscribe()
    waiting = asyncio.ensure_future(anext(subscription))
    await asyncio.sleep(0)
    feed.tell("answered")
    assert await waiting == {"type": "answered"}


async def test_slow_reader_loses_text_first_and_is_told() -> None:
    feed = CallFeed()
    subscription = feed.subscribe()
    feed.tell("answered")
    for number in range(MAX_WAITING + 9):
        feed.tell("text", text=str(number))
    feed.tell("dtmf", digit="1")
    feed.tell("ended", reason="hangup")
    events = [event async for event in subscription]
    assert events[0] == {"type": "dropped", "count": 12}
    assert events[1] == {"type": "answered"}
    assert events[-2:] == [{"type": "dtmf", "digit": "1"}, {"type": "ended", "reason": "hangup"}]
    assert len(events) == MAX_WAITING + 1


async def test_slow_reader_without_text_loses_what_is_oldest() -> None:
    feed = CallFeed()
    subscription = feed.subscribe()
    for number in range(MAX_WAITING + 1):
        feed.tell("dtmf", digit=str(number))
    assert await anext(subscription) == {"type": "dropped", "count": 1}
    assert await anext(subscription) == {"type": "dtmf", "digit": "1"}


async def test_subscription_that_is_closed_hears_nothing_more() -> None:
    feed = CallFeed()
    subscription = feed.subscribe()
    waiting = asyncio.ensure_future(anext(subscription))
    await asyncio.sleep(0)
    subscription.close()
    subscription.close()
    with pytest.raises(StopAsyncIteration):
        await waiting
    feed.tell("answered")
    assert [event async for event in subscription] == []


async def test_subscribers_are_bounded() -> None:
    feed = CallFeed()
    subscriptions = [feed.subscribe() for _ in range(MAX_SUBSCRIBERS)]
    with pytest.raises(TooManySubscribers):
        feed.subscribe()
    subscriptions[0].close()
    feed.subscribe()


async def test_conversation_is_told_on_the_feed(world: World) -> None:
    await world.answered()
    subscription = world.call.feed.subscribe()
    said = [
        ResponseDelta(response_index=0, data="hello", frame=1, rtp_timestamp=None),
        InputTranscript(item=0, text="good morning", final=True, start_ms=0, end_ms=80),
        BargeIn(epoch=1, source="speech", audio_ms=400),
    ]
    for number, event in enumerate(said, 100):
        world.leg.send_event(Numbered(number, event))
    world.call.hangup()
    events = [event async for event in subscription]
    assert events[2:] == [
        {"type": "text", "text": "hello"},
        {"type": "transcript", "text": "good morning", "final": True},
        {"type": "barge_in", "audio_ms": 400},
        {"type": "ended", "reason": "hangup"},
    ]


async def test_feed_of_all_calls_goes_on_when_one_of_them_has_ended() -> None:
    every, one, two = CallFeed(lasting=True), CallFeed(), CallFeed()
    one.pass_on = lambda event: every.put({"call_id": "one", **event})
    two.pass_on = lambda event: every.put({"call_id": "two", **event})
    one.tell("ringing")
    subscription = every.subscribe()
    one.tell("ended", reason="hangup")
    two.tell("text", text="hello")
    assert await anext(subscription) == {"call_id": "one", "type": "ended", "reason": "hangup"}
    assert await anext(subscription) == {"call_id": "two", "type": "text", "text": "hello"}
