"""``/v1/audio/duplex``: raw PCM and JSON over one socket, for tools and tests that want no codec.

The conversation is one of the shared sessions. It starts with the client's ``open``, or with its first audio. By
default that audio is the clock: a file that is sent at once is stepped as a whole, a frame a tick, and nothing of it is
dropped. What is more than two minutes ahead is not read from the socket yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from aiohttp import web

from rtc_server import metrics
from rtc_server.errors import BadEvent, BadRequest, ClientError
from rtc_server.events import UnknownEvent
from rtc_server.http.sockets import AiohttpWire, SocketLimits, serve
from rtc_server.log import get_logger
from rtc_server.media.frames import SAMPLE_RATE
from rtc_server.media.pcmformat import PcmDecoder, PcmEncoder
from rtc_server.session.admission import Admission
from rtc_server.session.session import Session
from rtc_server.transports.websocket import pcm
from rtc_server.transports.websocket.intake import Pace
from rtc_server.transports.websocket.leg import SocketLeg
from rtc_server.transports.websocket.pcm import Append, Finish, Flow, Ignored, Open, Other, PcmDialect

log = get_logger(__name__)

SLICE_BYTES = 32 * 1024
"""Of a long message, so much is worked on at once; other calls come in between."""
ALREADY_OPEN = BadEvent("session already open", hint="one socket carries one conversation; connect again for another")


class Beginning(NamedTuple):
    asked: Open
    audio: bytes = b""
    """What a client began with who asked for nothing first."""


class Duplex:
    """The handler; everything it needs is handed in.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, admission: Admission, clock: Callable[[], float], sockets: SocketLimits) -> None:
        self._admission = admission
        self._clock = clock
        self._sockets = sockets

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/v1/audio/duplex", self.duplex, allow_head=False)]

    async def duplex(self, request: web.Request) -> web.WebSocketResponse:
        return await serve(request, pcm.refusal, self._converse)

    async def _converse(self, wire: AiohttpWire) -> None:
        """Raises: RtcServerError, when there is no conversation to be had."""
        beginning = await self._beginning(wire)
        if beginning is None:
            return
        asked = beginning.asked
        encoder = PcmEncoder(asked.format, asked.rate)
        leg = await self._begin(wire, asked, PcmDialect(encoder, asked.events))
        ear = _Ear(leg, PcmDecoder(asked.format, asked.rate), encoder.delay_s)
        await wire.listen(leg, ear.hear, beginning.audio)

    async def _beginning(self, wire: AiohttpWire) -> Beginning | None:
        """None where the client goes without having asked for anything. Raises: TooManyHalfOpen, BadRequest."""
        with self._sockets.unopened():
            try:
                async with asyncio.timeout(self._sockets.open_s):
                    return await self._first_wish(wire)
            except TimeoutError:
                message = f"no open and no audio came within {self._sockets.open_s:g} s"
                raise BadRequest(message, hint=pcm.OPEN_HINT) from None

    async def _first_wish(self, wire: AiohttpWire) -> Beginning | None:
        """Raises: BadRequest."""
        while (message := await wire.receive()) is not None:
            await asyncio.sleep(0)  # a flood of small messages takes its turn like everybody
            if isinstance(message, bytes):
                return Beginning(Open(), message)
            try:
                said = pcm.read(message)
            except BadEvent as error:
                metrics.EVENTS_REJECTED.labels(error.code).inc()
                await wire.send(pcm.refusal(error))
                continue
            match said:
                case Open():
                    return Beginning(said)
                case Append(audio):
                    return Beginning(Open(), audio)
                case Finish():
                    await wire.send(pcm.done())
                    return None
                case _:
                    metrics.EVENTS_REJECTED.labels(UnknownEvent.code).inc()
        return None

    async def _begin(self, wire: AiohttpWire, asked: Open, dialect: PcmDialect) -> SocketLeg:
        """Raises: what `Admission.admit` and `Admission.resume` raise."""
        if asked.resume is not None:  # whatever goes wrong changes nothing for a session that exists
            return self._add_leg(self._admission.resume(asked.resume), wire, asked, dialect)
        session = await self._admission.admit(asked.prompt(self._admission.spec))
        try:
            return self._add_leg(session, wire, asked, dialect)
        except BaseException:
            session.close("setup_failed")
            raise

    def _add_leg(self, session: Session, wire: AiohttpWire, asked: Open, dialect: PcmDialect) -> SocketLeg:
        attachment = session.expect_leg(asked.last_event)
        leg = SocketLeg(wire, dialect, Pace(asked.pace), attachment, self._clock)
        attachment.attach(leg)
        log.info("leg made", session_id=session.id, state=session.state.value, kind=leg.kind, leg=leg.id)
        leg.start()
        return leg


class _Ear:
    """What a client says once it has a conversation.

    Args:
        answer_delay_s: how long the encoder of the answer holds a sound back.
    """

    def __init__(self, leg: SocketLeg, voice: PcmDecoder, answer_delay_s: float) -> None:
        self._leg = leg
        self._voice = voice
        self._answer_delay_s = answer_delay_s
        self._is_heard = False

    async def hear(self, message: str | bytes) -> None:
        if isinstance(message, bytes):
            await self._hear_audio(message)
            return
        try:
            await self._hear_word(pcm.read(message))
        except BadRequest:  # a second `open`, and one that could not be had
            self._refuse(ALREADY_OPEN)
        except BadEvent as error:
            self._refuse(error)

    async def _hear_word(self, said: pcm.Message) -> None:
        match said:
            case Append(audio):
                await self._hear_audio(audio)
            case Finish():
                await self._hear_the_end()
            case Flow.HOLD:
                self._leg.hold()
            case Flow.GO_ON:
                self._leg.release()
            case Other(text):
                self._leg.message(text)
            case Open():
                self._refuse(ALREADY_OPEN)
            case Ignored():
                metrics.EVENTS_REJECTED.labels(UnknownEvent.code).inc()

    async def _hear_audio(self, audio: bytes) -> None:
        self._is_heard = True
        for start in range(0, len(audio), SLICE_BYTES):
            await self._leg.feed(self._voice.feed(audio[start : start + SLICE_BYTES]))
            await asyncio.sleep(0)

    async def _hear_the_end(self) -> None:
        """What the filters of both directions hold back is part of the conversation too."""
        if self._is_heard:
            silence = np.zeros(round(self._answer_delay_s * SAMPLE_RATE), np.float32)
            await self._leg.feed(np.concatenate([self._voice.end(), silence]))
        self._leg.finish()

    def _refuse(self, error: ClientError) -> None:
        metrics.EVENTS_REJECTED.labels(error.code).inc()
        self._leg.tell(pcm.refusal(error))
