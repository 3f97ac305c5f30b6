"""The tie between a session and one of its legs: what a transport takes as the handler of the leg that it makes.

A session outlives its legs. So a leg never talks to the session directly, but to its attachment, which goes deaf when
the leg has been replaced: whatever a leg of the past still says or does concerns nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from rtc_server.events import Numbered
from rtc_server.session.leg import Leg

WAITING_EVENTS = 1024
"""Events of the past, and new ones behind them, that wait until the leg has room. Past it the oldest are dropped."""


class LegOwner(Protocol):
    """The session, as far as its legs are concerned. Called on the event loop's thread."""

    def leg_attached(self, attachment: Attachment) -> None:
        """The leg exists, and begins to connect. Raises: SessionNotFound, when the session has ended meanwhile."""

    def leg_connected(self, attachment: Attachment) -> None: ...

    def leg_message(self, attachment: Attachment, message: str | bytes) -> None: ...

    def leg_digit(self, attachment: Attachment, digit: str) -> None: ...

    def leg_closed(self, attachment: Attachment, reason: str) -> None: ...


class Attachment:
    """One leg of a session, from the moment at which it is asked for. Closes its leg once, if the leg does not end by
    itself.

    Args:
        owner: hears what the leg says, until `close`.
        asked_s: when the caller asked for it, monotonic seconds.
        last_event: number of the last event that the caller knows of; None when it does not say.
    """

    def __init__(self, owner: LegOwner, asked_s: float, last_event: int | None = None) -> None:
        self.leg: Leg | None = None
        """None before `attach`, and after its end."""
        self.asked_s = asked_s
        self.last_event = last_event
        self.greeted = False
        """It has been told what every connection is told first."""
        self._owner: LegOwner | None = owner
        self._waiting: deque[Numbered] = deque(maxlen=WAITING_EVENTS)

    def attach(self, leg: Leg) -> None:
        """Tie the leg that the transport made. Raises: SessionNotFound, when the session has ended meanwhile."""
        self.leg = leg
        if self._owner is not None:
            self._owner.leg_attached(self)

    # ---- the leg's side ----------------------------------------------------------------------------------------------

    def on_connected(self) -> None:
        if self._owner is not None:
            self._owner.leg_connected(self)

    def on_message(self, message: str | bytes) -> None:
        if self._owner is not None:
            self._owner.leg_message(self, message)

    def on_digit(self, digit: str) -> None:
        if self._owner is not None:
            self._owner.leg_digit(self, digit)

    def on_leg_closed(self, reason: str) -> None:
        """The leg ended by itself and has freed everything."""
        if self._owner is not None:
            self._owner.leg_closed(self, reason)
        self._owner, self.leg = None, None

    # ---- the session's side ------------------------------------------------------------------------------------------

    def send(self, numbered: Numbered) -> None:
        """Send an event, behind what is still to be replayed."""
        if self._waiting:
            self._waiting.append(numbered)
        elif self.leg is not None:
            self.leg.send_event(numbered)

    def replay(self, events: Sequence[Numbered]) -> None:
        """Send events of the past, as many as the leg has room for now and the rest with each `tick`."""
        self._waiting.extend(events)
        self.tick()

    def tick(self) -> None:
        while self._waiting and self.leg is not None and self.leg.event_room:
            self.leg.send_event(self._waiting.popleft())

    async def close(self, reason: str) -> None:
        """Hear nothing more of the leg, and close it. May be called twice."""
        leg, self.leg, self._owner = self.leg, None, None
        if leg is not None:
            for numbered in self._waiting:
                leg.send_event(numbered)
            await leg.close(reason)
