"""What an application is told about one call, as it happens."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from rtc_server.errors import TooManySubscribers

MAX_WAITING = 256
MAX_SUBSCRIBERS = 16
MAX_PAST = 64

FeedEvent = dict[str, Any]
"""``{"type": ..., ...}``: ringing, early_media, answered, text, transcript, dtmf, held, resumed, transfer, transferred,
barge_in, ended {reason}; and dropped {count}, where a subscriber has read too slowly."""

_STATES = frozenset({"ringing", "early_media", "answered", "held", "resumed", "transfer", "transferred", "ended"})
_DROPPED_FIRST = frozenset({"text", "transcript"})


class Subscription(AsyncIterator[FeedEvent]):
    """Yields the events in order, and is over after ``ended``, unless the feed is lasting. Holds at most `MAX_WAITING`:
    a slow reader loses text and transcripts first, then what is oldest, and is told how many events."""

    def __init__(self, feed: CallFeed, past: list[FeedEvent]) -> None:
        self._feed = feed
        self._waiting = deque(past)
        self._dropped = 0
        self._arrived = asyncio.Event()
        self._closed = False

    def put(self, event: FeedEvent) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._drop_one()
        self._waiting.append(event)
        self._arrived.set()

    def close(self) -> None:
        """Hear nothing more. May be called twice; who waits for an event is told that there is none."""
        self._closed = True
        self._waiting.clear()
        self._arrived.set()
        self._feed.forget(self)

    async def __anext__(self) -> FeedEvent:
        while True:
            if self._dropped:
                count, self._dropped = self._dropped, 0
                return {"type": "dropped", "count": count}
            if self._waiting:
                event = self._waiting.popleft()
                if event["type"] == "ended" and not self._feed.lasting:
                    self.close()
                return event
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()

    def _drop_one(self) -> None:
        victim = next((event for event in self._waiting if event["type"] in _DROPPED_FIRST), self._waiting[0])
        self._waiting.remove(victim)
        self._dropped += 1


class CallFeed:
    """Who subscribes late is told first which states the call has been in. Event loop's thread only.

    Args:
        lasting: the feed of many calls, which has no past and no end.
    """

    def __init__(self, *, lasting: bool = False) -> None:
        self.lasting = lasting
        self.pass_on: Callable[[FeedEvent], None] | None = None
        """Hears every event too."""
        self._subscriptions: list[Subscription] = []
        self._past: deque[FeedEvent] = deque(maxlen=MAX_PAST)

    def subscribe(self) -> Subscription:
        """Raises: TooManySubscribers."""
        if len(self._subscriptions) >= MAX_SUBSCRIBERS:
            listened_to = "all calls" if self.lasting else "this call"
            raise TooManySubscribers(f"{MAX_SUBSCRIBERS} listen to {listened_to} already", hint="close one of them")
        subscription = Subscription(self, list(self._past))
        self._subscriptions.append(subscription)
        return subscription

    def tell(self, kind: str, **fields: Any) -> None:
        self.put({"type": kind, **fields})

    def put(self, event: FeedEvent) -> None:
        if event["type"] in _STATES and not self.lasting:
            self._past.append(event)
        for subscription in self._subscriptions:
            subscription.put(event)
        if self.pass_on is not None:
            self.pass_on(event)

    def forget(self, subscription: Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
