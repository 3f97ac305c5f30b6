from __future__ import annotations

import asyncio
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
    WAITING_EVENTS,
    EventChannel,
)

STATS = events.SessionStats(loss=0, jitter_delay_ms=0, lateness_ms=0, tick_ms=0, shed=0)


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
        self.handlers: dict[str, Callable[..., None]] = {}

    def on(self, name: str, handler: Callable[..., None]) -> None:
        self.handlers[name] = handler

    def send(self, text: str) -> None:
        if not self.open:
            raise InvalidStateError
        self.sent.append(text)
        self.bufferedAmount += len(text.encode())

    def read_all(self) -> None:
        self.bufferedAmount = 0
        self.handlers["bufferedamountlow"]()

    def types(self) -> list[str]:
        return [json.loads(text)["type"] for text in self.sent]


class Rig:
    def __init__(self) -> None:
        self.now = 0.0
        self.messages: list[Any] = []
        self.lost = 0
        self.channel = EventChannel(self.messages.append, self.on_lost, lambda: self.now)

    def on_lost(self) -> None:
        self.lost += 1

    def attach(self, fake: FakeChannel) -> FakeChannel:
        self.channel.attach(cast(RTCDataChannel, fake))
        return fake


async def test_events_wait_for_the_channel_and_keep_their_order() -> None:
    rig = Rig()
    rig.channel.send(events.SessionReady())
    rig.channel.send(delta(1))
    fake = rig.attach(FakeChannel())
    rig.channel.send(delta(2))
    assert fake.types() == ["session.ready", "response.delta", "response.delta"]


async def test_only_the_channel_with_our_label_is_taken() -> None:
    rig = Rig()
    other, first, second = rig.attach(FakeChannel("chat")), rig.attach(FakeChannel()), rig.attach(FakeChannel())
    rig.channel.send(events.SessionReady())
    assert [len(fake.sent) for fake in (other, first, second)] == [0, 1, 0]
    assert not other.handlers and not second.handlers


async def test_peer_that_does_not_read_loses_statistics_first_then_text() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    rig.channel.send(delta(0, "x" * IN_FLIGHT_BYTES))
    for _ in range(10):
        rig.channel.send(STATS)
    for frame in range(1, WAITING_EVENTS - 9):
        rig.channel.send(delta(frame))
    assert rig.channel.dropped == 0
    rig.channel.send(events.BargeIn(epoch=1, source="client", audio_ms=0))
    for frame in range(1000, 1000 + WAITING_EVENTS + 20):
        rig.channel.send(delta(frame))
    assert len(fake.sent) == 1
    fake.read_all()
    waited = [json.loads(text) for text in fake.sent[1:]]
    assert len(waited) == WAITING_EVENTS
    assert not any(event["type"] == "session.stats" for event in waited)
    assert waited[0]["type"] == "barge_in"
    assert [event["frame"] for event in waited[1:]] == list(range(1000 + 21, 1000 + WAITING_EVENTS + 20))


async def test_after_a_minute_of_blockage_little_and_only_new_text_comes() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    rig.channel.send(delta(0, "x" * IN_FLIGHT_BYTES))
    for frame in range(1, 751):
        rig.channel.send(delta(frame))
    fake.read_all()
    assert len(fake.sent) == 1 + WAITING_EVENTS
    assert json.loads(fake.sent[-1])["frame"] == 750
    assert rig.channel.dropped == 750 - WAITING_EVENTS


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
    rig.channel.send(events.SessionReady())
    assert rig.channel.dropped == 1
    fake.handlers["close"]()
    assert rig.lost == 1
    for _ in range(1000):
        rig.channel.send(events.SessionReady())
    await rig.channel.drain(0.01)


async def test_drain_waits_until_everything_has_left() -> None:
    rig = Rig()
    fake = rig.attach(FakeChannel())
    rig.channel.send(events.SessionEnded(reason="done"))
    drained = asyncio.ensure_future(rig.channel.drain(5))
    await asyncio.sleep(0)
    assert not drained.done()
    fake.read_all()
    await asyncio.wait_for(drained, 1)
