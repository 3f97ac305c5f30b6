"""All sessions by id and by resume token, and how they end together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from rtc_server.errors import SessionNotFound
from rtc_server.session.conductor import Conductor
from rtc_server.session.resume import digest_of
from rtc_server.session.session import Session, State


class SessionRegistry:
    """Ids are 128 random bits: knowing one is the right to change or end a call, but not to take it over."""

    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor
        self._sessions: dict[str, Session] = {}
        self._by_token: dict[bytes, Session] = {}
        self.cut_off = 0
        """Conversations that have not ended by themselves, but by `close_all`."""
        self._empty = asyncio.Event()
        self._empty.set()

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)

    def add(self, session: Session) -> None:
        self._sessions[session.id] = session
        self._by_token[session.token.digest] = session
        self._empty.clear()
        self._conductor.add(session)

    def remove(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        self._by_token.pop(session.token.digest, None)
        self._conductor.remove(session)
        if not self._sessions:
            self._empty.set()

    def get(self, session_id: str) -> Session:
        """Raises: SessionNotFound, for an unknown id and an ended session alike."""
        session = self._sessions.get(session_id)
        if session is None or session.state is State.CLOSED:
            raise SessionNotFound("no such session", hint="it may have ended; start a new one with POST /v1/sessions")
        return session

    def owned_by(self, secret: str) -> Session:
        """The session whose resume token this is. Raises: SessionNotFound, for a guess and an ended session alike."""
        session = self._by_token.get(digest_of(secret))
        if session is None or session.state is State.CLOSED:
            raise SessionNotFound("no such session", hint="it may have ended; start a new one without `resume`")
        return session

    async def drain(self, grace_s: float, reason: str) -> None:
        """Tell every session that the end is near, give it `grace_s`, then close it. Returns when all are closed."""
        for session in self:
            session.announce_end(grace_s, reason)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), grace_s)
        await self.close_all(reason)

    async def close_all(self, reason: str) -> None:
        sessions = list(self)
        self.cut_off += sum(session.state is not State.CLOSED for session in sessions)
        for session in sessions:
            session.close(reason)
        await asyncio.gather(*(session.wait_closed() for session in sessions), return_exceptions=True)
