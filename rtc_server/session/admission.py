"""Who may come in: a prompt that the engine can serve, a free slot, and not too many calls half open."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from rtc_server import metrics
from rtc_server.engine.client import EngineClient
from rtc_server.engine.stepper import FrameSpec, SessionPrompt
from rtc_server.errors import (
    BadRequest,
    ClientError,
    ConfigError,
    EngineDraining,
    EngineFull,
    EngineUnavailable,
    TooManyHalfOpen,
    UnknownVoice,
)
from rtc_server.session.liveness import LivenessRules
from rtc_server.session.registry import SessionRegistry
from rtc_server.session.session import Session, State


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a caller gets who asks for nothing."""

    persona: str | None = None
    voice: str | None = None


class Admission:
    """Admits or refuses, before any other work. There is one door for every transport."""

    def __init__(
        self,
        engine: EngineClient,
        registry: SessionRegistry,
        rules: LivenessRules,
        defaults: Defaults | None = None,
        max_half_open: int = 64,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.draining = False
        self.rules = rules
        self._engine = engine
        self._registry = registry
        self.defaults = defaults or Defaults()
        self._max_half_open = max_half_open
        self._clock = clock

    @property
    def spec(self) -> FrameSpec:
        """What the engine is: which voices it has, how long a persona may be."""
        return self._engine.spec

    def check(self) -> None:
        """Refuse at once what has no chance, so that a full server spends nothing on an offer.

        The slots that count are those of our own open sessions. The engine's own figure may be a moment old, and has in
        it the slot of a session that has just closed: for that one `admit` waits.

        Raises: EngineDraining, EngineUnavailable, EngineFull, TooManyHalfOpen.
        """
        capacity = self._engine.capacity()
        if self.draining or capacity.draining:
            raise EngineDraining("the server is shutting down", hint="try again in half a minute")
        if not capacity.ready:
            raise EngineUnavailable("the engine is not ready", hint="try again in a few seconds")
        if sum(session.state is not State.CLOSED for session in self._registry) >= capacity.total:
            raise EngineFull(f"all {capacity.total} conversation slots are in use", hint="try again in a few seconds")
        half_open = sum(session.state is State.CONNECTING for session in self._registry)
        if half_open >= self._max_half_open:
            raise TooManyHalfOpen(f"{half_open} calls are being set up already", hint="try again in a few seconds")

    async def check_defaults(self) -> None:
        """Take a slot as a caller would who asks for nothing, and give it back.

        Raises: ConfigError, when such a caller would be refused.
        """
        try:
            lease = await self._engine.reserve(self.prompt(SessionPrompt()))
        except ClientError as error:
            message = error.message.removeprefix("the ")
            raise ConfigError(f"the default {message}", hint=error.hint) from None
        await self._engine.release(lease)

    def prompt(self, asked: SessionPrompt) -> SessionPrompt:
        """What was asked for, completed by the defaults and checked against the engine.

        Raises: UnknownVoice, BadRequest.
        """
        spec = self._engine.spec
        persona = asked.persona if asked.persona is not None else self.defaults.persona
        named = asked.voice if asked.voice is not None else self.defaults.voice
        voice = spec.voice_named(named) if named is not None else None
        if named is not None and voice is None:
            known = ", ".join(spec.voices)
            raise UnknownVoice(f"voice {named[:64]!r} is unknown", hint=f"the engine {spec.name} has: {known}")
        if persona is not None and persona != persona.encode(errors="ignore").decode():
            raise BadRequest("persona has characters that are no text (lone surrogates)", hint="send it as UTF-8")
        if persona is not None and len(persona) > spec.max_persona_chars:
            raise BadRequest(
                f"persona has {len(persona)} characters",
                hint=f"the engine {spec.name} takes at most {spec.max_persona_chars}",
            )
        return SessionPrompt(persona=persona, voice=voice, seed=asked.seed, sampling=asked.sampling)

    async def admit(self, asked: SessionPrompt) -> Session:
        """A session with a slot of its own, known to the registry, without a leg yet: the caller attaches one, or
        closes it. Where all slots are in use and one of them is just closing, that one is waited for, but not for long.

        Raises: what `check`, `prompt` and `EngineClient.reserve` raise.
        """
        await asyncio.sleep(0)  # a session that has closed in this turn of the loop gives its slot back in the next
        self.check()
        lease = await self._engine.reserve(self.prompt(asked))
        session = Session(
            secrets.token_urlsafe(16), self._engine, lease, self._clock, self.rules, on_closed=self._registry.remove
        )
        metrics.SESSIONS.labels(State.CONNECTING.value).inc()
        self._registry.add(session)
        return session

    def resume(self, secret: str) -> Session:
        """The conversation that the owner of this token wants back. It has its slot, so a full server and one that is
        draining let it in as well.

        Raises: SessionNotFound, TooManyResumes.
        """
        session = self._registry.owned_by(secret)
        session.token.use(self._clock())
        return session
