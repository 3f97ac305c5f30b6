"""``/api/chat``: the socket that Moshi's and PersonaPlex's clients speak to.

The conversation is one of the shared sessions, at real-time pace. It starts from the query of the upgrade request, and
waits for nobody: a full server, and a parameter that cannot be had, are told before any engine work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from aiohttp import web

from rtc_server import metrics
from rtc_server.errors import BadEvent
from rtc_server.events import UnknownEvent
from rtc_server.http.sockets import AiohttpWire, serve
from rtc_server.log import get_logger
from rtc_server.media.oggopus import MAX_FEED_MS, OggOpusReader
from rtc_server.session.admission import Admission
from rtc_server.session.session import Session
from rtc_server.transports.ratelimit import RateLimit
from rtc_server.transports.websocket import moshi
from rtc_server.transports.websocket.intake import Pace
from rtc_server.transports.websocket.leg import SocketLeg

log = get_logger(__name__)

MAX_LINE_BYTES = 64 * 1024
"""Of a request's first line. A persona stands in it, percent-encoded: the longest that an engine takes needs up to nine
bytes for a character. Proxies in front of a server often allow 8 KiB (nginx: ``large_client_header_buffers``)."""
DECODED_MS_PER_S = 2000.0
"""Of a caller's voice. More comes only from who would keep this server busy; it is dropped as it is."""
DECODED_AT_ONCE_MS = 5000.0
"""What a network that stood still may bring in one piece."""
TYPED_TEXT = BadEvent("typed text is not supported", hint="this agent is spoken to")


class Chat:
    """The handler; everything it needs is handed in.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, admission: Admission, clock: Callable[[], float]) -> None:
        self._admission = admission
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/api/chat", self.chat, allow_head=False)]

    async def chat(self, request: web.Request) -> web.WebSocketResponse:
        return await serve(request, moshi.refusal, partial(self._converse, list(request.query.items())))

    async def _converse(self, query: list[tuple[str, str]], wire: AiohttpWire) -> None:
        """Raises: RtcServerError, when there is no conversation to be had."""
        self._admission.check()
        session = await self._admission.admit(moshi.prompt_of(query, self._admission.spec))
        try:
            leg = self._add_leg(session, wire)
        except BaseException:
            session.close("setup_failed")
            raise
        ear = _Ear(leg, self._clock)
        try:
            await wire.listen(leg, ear.hear)
        finally:
            log.info("voice ended", session_id=session.id, **ear.counters)

    def _add_leg(self, session: Session, wire: AiohttpWire) -> SocketLeg:
        attachment = session.expect_leg()
        leg = SocketLeg(wire, moshi.MoshiDialect(), Pace.REALTIME, attachment, self._clock)
        attachment.attach(leg)
        log.info("session created", session_id=session.id, kind=leg.kind)
        leg.start()
        return leg


class _Ear:
    """What a client sends. The stream of its voice begins with the socket, not with the conversation: its first pages
    may come early, and without them the rest could be of no use.

    Decoding is bounded for each message, and by `DECODED_MS_PER_S`. What is over that is dropped undecoded, and counted
    with what the leg drops.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, leg: SocketLeg, clock: Callable[[], float]) -> None:
        self._leg = leg
        self._clock = clock
        self._voice = OggOpusReader()
        self._decodable_ms = RateLimit(DECODED_MS_PER_S, DECODED_AT_ONCE_MS)
        self._told = False

    @property
    def counters(self) -> dict[str, float]:
        """Of the stream, for the log."""
        return {**asdict(self._voice.counters), **asdict(self._voice.page_counters)}

    async def hear(self, message: str | bytes) -> None:
        kind, payload = moshi.split(message)
        match kind:
            case moshi.Kind.AUDIO:
                await self._hear_voice(payload)
            case moshi.Kind.TEXT:
                metrics.EVENTS_REJECTED.labels(TYPED_TEXT.code).inc()
                if not self._told:
                    self._told = True
                    self._leg.tell(moshi.refusal(TYPED_TEXT))
            case None:
                metrics.EVENTS_REJECTED.labels(UnknownEvent.code).inc()
            case _:  # control, metadata, ping: they showed that the client is there
                pass

    async def _hear_voice(self, pages: bytes) -> None:
        counters = self._voice.counters
        decoded_ms, dropped_samples = counters.decoded_ms, counters.dropped_samples
        pcm = self._voice.feed(pages, min(MAX_FEED_MS, self._decodable_ms.left(self._clock())))
        self._decodable_ms.take(counters.decoded_ms - decoded_ms)
        self._leg.count_dropped(counters.dropped_samples - dropped_samples)
        await self._leg.feed(pcm)
