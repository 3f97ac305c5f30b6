from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any, cast

from aiortc import RTCDataChannel
from aiortc.exceptions import InvalidStateError

from rtc_server import events
from rtc_server.transports.webrtc.datachannel import (
    IN_FLIGHT_BYTES,
    LABEL,
    MESSAGES_BURST,
    MESSAGES_PER_S,
    URGENT_IN_FLIGHT_BYTES,
    URGENT_LABEL,
    WAITING_EVENTS,
    EventChannel,
)

STATS = events.SessionStats(loss=0, jitter_delay_ms=0, lateness_ms=0, tick_ms=0, shed=0)
BARGE_IN = events.BargeIn(epoch=1, source="client", audio_ms=0)
CANCELLED = events.ResponseCancelled(response_index=0, epoch=1, played_ms=0, dropped_ms=0)


def delta(frame: int, data: str = "word ") -> events.ResponseDelta:
    return events.ResponseDelta(response_index=0, data=data, frame=frame, rtp_timestamp=None)


class FakeChannel:
    """A data channel whose peer reads when the test says so."""

    def __init__(self, label: str = LABEL) -> None:
        self.label = label
        self.bufferedAmount = 0  # noqa: N815 - aiortc's names
        self.bufferedAmountLowThreshold = 0  # noqa: N815
        self.sent: list[str] = []
        self.open = True
        self.max_bytes = 1 << 16
        self.handlers: dict[str, Callable[..., None]] = {}

    def on(self, name: str, handler: Callable[..., None]) -> None:
        self.handlers[name] = handler

    def send(self, text: str) -> None:
        if not self.open:
            raise InvalidStateError
        if len(text.encode()) > self.max_bytes:
            raise ValueError
        self.sent.append(text)
        self.bufferedAmount += len(text.encode())

    def read_all(self) -> None:
        self.bufferedAmount = 0
        self.handlers["bufferedamountlow"]()

    def messages(self) -> list[list[Any]]:
        """The events of each message."""
        parsed = [json.loads(text) for text in self.sent]
        return [message if isinstance(message, list) else [message] for message in parsed]

    def received(self) -> list[Any]:
        return [event for message in self.messages() for event in message]

    def types(self) -> list[str]:
        return [event["type"] for event in self.received()]


class Rig:
    def __init__(self) -> None:
        self.now = 0.0
        self.messages: list[Any] = []
        self.lost = 0
        self.channel = EventChannel(self.messages.append, self.on_lost, lambda: self.now)
        self._numbers = itertools.count(1)

    def on_lost(self) -> None:
        self.lost += 1

    def attach(self, fake: FakeChannel) -> FakeChannel:
        self.channel.attach(cast(RTCDataChannel, fake))
        return fake

    def queue(self, *made: events.ServerEvent) -> None:
        for event in made:
            self.channel.send(events.Numbered(next(self._numbers), event))

    async def tick(self, *made: events.ServerEvent) -> None:
        """Events of one turn of the event loop."""
        self.queue(*made)
        await asyncio.sleep(0)

    async def block(self, fake: FakeChannel) -> None:
        """One event that the peer never reads fills the channel."""
        await self.tick(delta(0, "x" * IN_FLIGHT_BYTES))
        assert len(fake.sent) == 1


# ---- one message a tick ----------------------------------------------------------------------------------------------


async def test_events_of_one_tick_leave_in_one_message() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    rig.queue(events.SessionReady(), delta(1))
    assert not fake.sent
    rig.queue(STATS)
    await asyncio.sleep(0)
    await rig.tick(delta(2))
    assert [[event["type"] for event in message] for message in fake.messages()] == [
        ["session.ready", "response.delta", "session.stats"],
        ["response.delta"],
    ]
    assert [event["seq"] for event in fake.received()] == [1, 2, 3, 4]


async def test_a_single_event_is_an_object() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    await rig.tick(delta(1))
    assert json.loads(fake.sent[0])["type"] == "response.delta"


async def test_events_wait_for_the_channel_and_keep_their_order() -> None:
    rig = Rig()
    await rig.tick(events.SessionReady(), delta(1))
    fake = rig.attach(FakeChannel())
    await rig.tick(delta(2))
    assert fake.types() == ["session.ready", "response.delta", "response.delta"]


async def test_no_message_is_longer_than_its_limit_unless_one_event_is() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    for frame in range(40):
        rig.queue(delta(frame, "é" * 500))
    rig.queue(delta(40, "x" * (events.MAX_MESSAGE_BYTES + 1)), delta(41))
    for _ in range(10):
        await asyncio.sleep(0)
        fake.read_all()
    assert [event["frame"] for event in fake.received()] == list(range(42))
    sizes = [(len(text.encode()), len(message)) for text, message in zip(fake.sent, fake.messages(), strict=True)]
    assert all(size <= events.MAX_MESSAGE_BYTES for size, members in sizes if members > 1)
    assert 1 < len(sizes) < 20


async def test_a_peer_that_takes_only_short_messages_gets_short_ones() -> None:
    rig = Rig()
    fake = FakeChannel()
    fake.max_bytes = 1000
    rig.attach(fake)
    await rig.tick(*(delta(frame) for frame in range(30)), delta(30, "x" * 1000), delta(31))
    assert [event["frame"] for event in fake.received()] == [*range(30), 31]
    assert rig.channel.dropped == 1


async def test_only_the_channels_with_our_labels_are_taken() -> None:
    rig = Rig()
    other, first, second = rig.attach(FakeChannel("chat")), rig.attach(FakeChannel()), rig.attach(FakeChannel())
    await rig.tick(events.SessionReady())
    assert [len(fake.sent) for fake in (other, first, second)] == [0, 1, 0]
    assert not other.handlers and not second.handlers


# ---- a peer that does not read ---------------------------------------------------------------------------------------


async def test_peer_that_does_not_read_loses_statistics_first_then_text() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    await rig.block(fake)
    await rig.tick(*[STATS] * 10, *(delta(frame) for frame in range(1, WAITING_EVENTS - 9)))
    assert rig.channel.dropped == 0
    await rig.tick(BARGE_IN, *(delta(frame) for frame in range(1000, 1000 + WAITING_EVENTS + 20)))
    assert len(fake.sent) == 1
    fake.read_all()
    waited = fake.received()[1:]
    assert len(waited) == WAITING_EVENTS
    assert not any(event["type"] == "session.stats" for event in waited)
    assert waited[0]["type"] == "barge_in"
    assert [event["frame"] for event in waited[1:]] == list(range(1000 + 21, 1000 + WAITING_EVENTS + 20))


async def test_after_a_minute_of_blockage_the_newest_text_comes_in_one_message() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    await rig.block(fake)
    for frame in range(1, 751):
        await rig.tick(delta(frame))
    assert len(rig.channel._waiting) == WAITING_EVENTS
    fake.read_all()
    _, waited = fake.messages()
    assert [event["frame"] for event in waited] == list(range(751 - WAITING_EVENTS, 751))
    assert rig.channel.dropped == 750 - WAITING_EVENTS


async def test_more_events_in_one_turn_than_may_wait_are_not_lost_on_a_channel_that_is_read() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    await rig.tick(*(delta(frame) for frame in range(3 * WAITING_EVENTS)))
    assert len(fake.received()) == 3 * WAITING_EVENTS
    assert rig.channel.dropped == 0


# ---- the urgent channel ----------------------------------------------------------------------------------------------


async def test_an_interruption_goes_over_both_channels_and_by_the_urgent_one_at_once() -> None:
    rig = Rig()
    fake, urgent = rig.attach(FakeChannel()), rig.attach(FakeChannel(URGENT_LABEL))
    rig.queue(delta(1), BARGE_IN, CANCELLED)
    assert [event["seq"] for event in urgent.received()] == [2, 3]
    assert urgent.types() == ["barge_in", "response.cancelled"]
    await asyncio.sleep(0)
    assert [event["seq"] for event in fake.received()] == [1, 2, 3]


async def test_an_interruption_is_not_held_up_by_a_stalled_events_channel() -> None:
    rig = Rig()
    fake, urgent = rig.attach(FakeChannel()), rig.attach(FakeChannel(URGENT_LABEL))
    await rig.block(fake)
    await rig.tick(BARGE_IN)
    assert urgent.types() == ["barge_in"] and len(fake.sent) == 1


async def test_a_stalled_urgent_channel_neither_grows_nor_holds_up_the_other() -> None:
    rig = Rig()
    fake, urgent = rig.attach(FakeChannel()), rig.attach(FakeChannel(URGENT_LABEL))
    for _ in range(1000):
        await rig.tick(BARGE_IN)
        fake.read_all()
    assert urgent.bufferedAmount < URGENT_IN_FLIGHT_BYTES + 200
    assert len(fake.received()) == 1000
    assert rig.channel.dropped == 0


async def test_messages_are_taken_from_both_channels_within_one_limit() -> None:
    rig = Rig()
    fake, urgent = rig.attach(FakeChannel()), rig.attach(FakeChannel(URGENT_LABEL))
    fake.handlers["message"]("one")
    urgent.handlers["message"]("two")
    assert rig.messages == ["one", "two"]
    for _ in range(200):
        urgent.handlers["message"]("{}")
        fake.handlers["message"]("{}")
    assert len(rig.messages) == MESSAGES_BURST


async def test_a_lost_urgent_channel_is_no_goodbye() -> None:
    rig = Rig()
    fake, urgent = rig.attach(FakeChannel()), rig.attach(FakeChannel(URGENT_LABEL))
    urgent.open = False
    await rig.tick(BARGE_IN)  # closing
    urgent.handlers["close"]()
    await rig.tick(CANCELLED)
    assert rig.lost == 0
    assert fake.types() == ["barge_in", "response.cancelled"]
    again = rig.attach(FakeChannel(URGENT_LABEL))
    await rig.tick(BARGE_IN)
    assert again.types() == ["barge_in"]


# ---- messages, and the end -------------------------------------------------------------------------------------------


async def test_message_flood_is_cut_to_its_limit() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    for index in range(10_000):
        rig.now = index / 1000
        fake.handlers["message"]("{}")
    assert len(rig.messages) <= MESSAGES_BURST + MESSAGES_PER_S * 10 + 1
    assert rig.channel.last_message_s == rig.now


async def test_handler_that_raises_does_not_reach_the_network() -> None:
    def broken(message: str | bytes) -> None:
        raise RuntimeError(message)

    channel = EventChannel(broken, lambda: None, lambda: 0.0)
    fake = FakeChannel()
    channel.attach(cast(RTCDataChannel, fake))
    fake.handlers["message"]("{}")


async def test_closed_channel_is_told_and_sending_goes_on_without_error() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    fake.open = False
    await rig.tick(events.SessionReady())
    assert rig.channel.dropped == 1
    fake.handlers["close"]()
    assert rig.lost == 1
    for _ in range(1000):
        await rig.tick(events.SessionReady())
    assert len(rig.channel._waiting) == WAITING_EVENTS
    await rig.channel.drain(0.01)


async def test_drain_waits_until_everything_has_left() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    rig.queue(events.SessionEnded(reason="done"))
    drained = asyncio.ensure_future(rig.channel.drain(5))
    await asyncio.sleep(0)
    assert fake.types() == ["session.ended"] and not drained.done()
    fake.read_all()
    await asyncio.wait_for(drained, 1)
