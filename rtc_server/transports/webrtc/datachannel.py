"""The event channel of one call, on data channels that the client opens: ``events`` and, if it likes, ``urgent``.

``events`` is ordered and reliable and carries everything. What happens in one turn of the event loop leaves in one
message: a conversation makes several events a tick, and each message of its own would cost a packet. What the peer
does not read waits here, at most `WAITING_EVENTS`; then the oldest statistics go first, then the oldest text, then the
oldest of the rest. So a channel that was blocked for a minute comes back with the newest state instead of a minute of
old words.

``urgent`` is for what is worthless when it is late: an interruption goes over both. The client opens it unordered and
without retransmissions, so that it waits behind no lost packet; whoever hears an event twice knows it by its number.

Incoming, over either: more than `MESSAGES_PER_S` are dropped. What is dropped is counted, both ways.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from aiortc import InvalidStateError, RTCDataChannel

from rtc_server import metrics
from rtc_server.events import MAX_MESSAGE_BYTES, BargeIn, Numbered, ResponseCancelled, encode
from rtc_server.log import get_logger
from rtc_server.session.worth import worth
from rtc_server.transports.ratelimit import RateLimit

LABEL = "events"
URGENT_LABEL = "urgent"
WAITING_EVENTS = 64
IN_FLIGHT_BYTES = 16 * 1024
"""What is handed to SCTP ahead of its sending; past it, events wait here, where they can still be dropped."""
URGENT_IN_FLIGHT_BYTES = 1024
"""Past it, the urgent channel is stalled, and what it would carry is late anyway."""
MESSAGES_PER_S = 50.0
MESSAGES_BURST = 100.0

logger = get_logger(__name__)


class EventChannel:
    """Bounded both ways; usable before the data channels are open and after they are gone. Event loop's thread only.

    Args:
        on_message: gets each message of the client, text or bytes, as it came.
        on_lost: the channel ``events`` closed.
        clock: monotonic seconds.
    """

    def __init__(
        self, on_message: Callable[[str | bytes], None], on_lost: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self.dropped = 0
        """Outgoing events that were never sent."""
        self.last_message_s = 0.0
        self._on_message = on_message
        self._on_lost = on_lost
        self._clock = clock
        self._channel: RTCDataChannel | None = None
        self._urgent: RTCDataChannel | None = None
        self._waiting: deque[Numbered] = deque()
        self._flushing: asyncio.Handle | None = None
        self._message_bytes = MAX_MESSAGE_BYTES
        self._messages = RateLimit(MESSAGES_PER_S, MESSAGES_BURST)
        self._moved = asyncio.Event()

    def attach(self, channel: RTCDataChannel) -> None:
        """Take a channel that the client opened. One with another label, or a second one of a label, is left alone."""
        if channel.label == URGENT_LABEL and self._urgent is None:
            self._urgent = channel
            channel.on("message", self._receive)
            channel.on("close", self._on_urgent_closed)
        elif channel.label == LABEL and self._channel is None:
            self._channel = channel
            channel.bufferedAmountLowThreshold = IN_FLIGHT_BYTES // 2
            channel.on("message", self._receive)
            channel.on("bufferedamountlow", self._on_sent)
            channel.on("close", self._close)
            self._flush()

    @property
    def room(self) -> int:
        """How many more events may wait before one is dropped."""
        return max(0, WAITING_EVENTS - len(self._waiting))

    def send(self, numbered: Numbered) -> None:
        """Queue an event. It leaves at the end of this turn of the event loop, with the others of the turn."""
        if isinstance(numbered.event, BargeIn | ResponseCancelled):
            self._send_urgently(numbered)
        self._waiting.append(numbered)
        if len(self._waiting) > WAITING_EVENTS:
            self._flush()
        if len(self._waiting) > WAITING_EVENTS:
            self._make_room()
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self._flush)

    async def drain(self, timeout_s: float) -> None:
        """Wait until what was sent is on the wire, at most `timeout_s`."""
        channel = self._channel
        if channel is None:
            return
        self._flush()
        channel.bufferedAmountLowThreshold = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._channel is not None and (self._waiting or channel.bufferedAmount > 0):
                    self._moved.clear()
                    await self._moved.wait()

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        channel = self._channel
        while channel is not None and self._waiting and channel.bufferedAmount < IN_FLIGHT_BYTES:
            message, events = self._next_message()
            try:
                channel.send(message)
            except ValueError:  # longer than the peer takes
                if events > 1:
                    self._message_bytes = len(message.encode()) // 2
                    continue
                self._count_dropped()
            except InvalidStateError:  # closing
                self._count_dropped(events)
            for _ in range(events):
                self._waiting.popleft()

    def _next_message(self) -> tuple[str, int]:
        """As many of the waiting events as fit into one message, at least one; and how many they are."""
        batch = list(self._waiting)
        while True:
            message = encode(*batch)
            if len(batch) == 1 or len(message.encode()) <= self._message_bytes:
                return message, len(batch)
            del batch[(len(batch) + 1) // 2 :]

    def _send_urgently(self, numbered: Numbered) -> None:
        channel = self._urgent
        if channel is not None and channel.bufferedAmount < URGENT_IN_FLIGHT_BYTES:
            with contextlib.suppress(InvalidStateError, ValueError):
                channel.send(encode(numbered))

    def _on_sent(self) -> None:
        self._flush()
        self._moved.set()

    def _make_room(self) -> None:
        place = min(range(len(self._waiting)), key=lambda index: worth(self._waiting[index].event))
        del self._waiting[place]
        self._count_dropped()

    def _count_dropped(self, events: int = 1) -> None:
        self.dropped += events
        metrics.EVENTS_DROPPED.inc(events)

    def _receive(self, message: str | bytes) -> None:
        now = self._clock()
        self.last_message_s = now
        if not self._messages.allow(now):
            metrics.EVENTS_REJECTED.labels("too_many").inc()
            return
        try:
            self._on_message(message)
        except Exception:
            # aiortc would take it for a malformed packet, and nobody would hear of the defect.
            logger.exception("event handler failed")

    def _on_urgent_closed(self) -> None:
        self._urgent = None

    def _close(self) -> None:
        self._channel = None
        self._waiting.clear()
        self._moved.set()
        self._on_lost()
