"""The event channel of one call, on a data channel that the client opens with the label ``events``.

Outgoing: what the peer does not read waits here, at most `WAITING_EVENTS`; then the oldest statistics go first, then
the oldest text, then the oldest of the rest. So a channel that was blocked for a minute comes back with the newest
state instead of a minute of old words. Incoming: more than `MESSAGES_PER_S` are dropped. Both are counted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from aiortc import InvalidStateError, RTCDataChannel

from rtc_server import metrics
from rtc_server.events import InputTranscript, Numbered, ResponseDelta, ServerEvent, SessionStats, encode
from rtc_server.log import get_logger
from rtc_server.transports.webrtc.ratelimit import RateLimit

LABEL = "events"
WAITING_EVENTS = 64
IN_FLIGHT_BYTES = 16 * 1024
"""What is handed to SCTP ahead of its sending; past it, events wait here, where they can still be dropped."""
MESSAGES_PER_S = 50.0
MESSAGES_BURST = 100.0

logger = get_logger(__name__)


class EventChannel:
    """Bounded both ways; usable before the data channel is open and after it is gone.

    Args:
        on_message: gets each message of the client, text or bytes, as it came.
        on_lost: the channel closed.
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
        self._waiting: deque[Numbered] = deque()
        self._messages = RateLimit(MESSAGES_PER_S, MESSAGES_BURST)
        self._moved = asyncio.Event()

    def attach(self, channel: RTCDataChannel) -> None:
        """Take a channel that the client opened. One with another label, or a second one, is left alone."""
        if channel.label != LABEL or self._channel is not None:
            return
        self._channel = channel
        channel.bufferedAmountLowThreshold = IN_FLIGHT_BYTES // 2
        channel.on("message", self._receive)
        channel.on("bufferedamountlow", self._on_sent)
        channel.on("close", self._close)
        self._pass_on()

    def send(self, numbered: Numbered) -> None:
        self._waiting.append(numbered)
        self._pass_on()
        if len(self._waiting) > WAITING_EVENTS:
            self._make_room()

    async def drain(self, timeout_s: float) -> None:
        """Wait until what was sent is on the wire, at most `timeout_s`."""
        channel = self._channel
        if channel is None:
            return
        channel.bufferedAmountLowThreshold = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._channel is not None and (self._waiting or channel.bufferedAmount > 0):
                    self._moved.clear()
                    await self._moved.wait()

    def _pass_on(self) -> None:
        channel = self._channel
        while channel is not None and self._waiting and channel.bufferedAmount < IN_FLIGHT_BYTES:
            numbered = self._waiting.popleft()
            try:
                channel.send(encode(numbered))
            except (InvalidStateError, ValueError):  # closing, or longer than the peer takes
                self._count_dropped()

    def _on_sent(self) -> None:
        self._pass_on()
        self._moved.set()

    def _make_room(self) -> None:
        place = min(range(len(self._waiting)), key=lambda index: _worth(self._waiting[index].event))
        del self._waiting[place]
        self._count_dropped()

    def _count_dropped(self) -> None:
        self.dropped += 1
        metrics.EVENTS_DROPPED.inc()

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

    def _close(self) -> None:
        self._channel = None
        self._waiting.clear()
        self._moved.set()
        self._on_lost()


def _worth(event: ServerEvent) -> int:
    """What goes last; of equal worth, the oldest goes first."""
    if isinstance(event, SessionStats):
        return 0
    if isinstance(event, ResponseDelta) or (isinstance(event, InputTranscript) and not event.final):
        return 1
    return 2
