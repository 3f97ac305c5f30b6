"""The legs of one session: the one that carries the conversation, and at most one that is being set up to take over."""

from __future__ import annotations

import asyncio

from rtc_server.log import get_logger
from rtc_server.session.attachment import Attachment
from rtc_server.session.leg import Leg

log = get_logger(__name__)


class Legs:
    """Owns the tasks that close legs. Event loop's thread only."""

    def __init__(self, session_id: str) -> None:
        self.current: Attachment | None = None
        self.coming: Attachment | None = None
        self._session_id = session_id
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def leg(self) -> Leg | None:
        """The leg that carries the conversation; None while the caller is away."""
        return self.current.leg if self.current is not None else None

    @property
    def all(self) -> tuple[Leg, ...]:
        """The coming one first."""
        legs = [attachment.leg for attachment in (self.coming, self.current) if attachment is not None]
        return tuple(leg for leg in legs if leg is not None)

    def expect(self, attachment: Attachment) -> None:
        """Wait for this leg to connect; the one that was waited for so far is given up."""
        if self.coming is not None:
            self.close(self.coming, "replaced")
        self.coming = attachment

    def take_over(self) -> None:
        """The coming leg is connected: it becomes the current one, and the old one is closed."""
        if self.current is not None:
            self.close(self.current, "replaced")
        self.current, self.coming = self.coming, None

    def close(self, attachment: Attachment, reason: str) -> None:
        """Begin to close one leg."""
        name = f"leg-close {self._session_id}"
        task = asyncio.get_running_loop().create_task(self._close(attachment, reason), name=name)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close_all(self, reason: str) -> None:
        """Returns when every leg of the session is closed."""
        for attachment in (self.coming, self.current):
            if attachment is not None:
                self.close(attachment, reason)
        self.coming = self.current = None
        while self._closing:
            await asyncio.gather(*self._closing)

    async def _close(self, attachment: Attachment, reason: str) -> None:
        try:
            await attachment.close(reason)
        except Exception:
            log.exception("leg did not close cleanly", session_id=self._session_id)
