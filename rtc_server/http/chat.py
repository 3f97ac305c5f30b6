"""``/api/chat``: the socket that Moshi's and PersonaPlex's clients speak to.

The conversation is one of the shared sessions, at real-time pace. It starts from the query of the upgrade request, and
waits for nobody: a full server, and a parameter that cannot be had, are told before any engine work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aiohttp import web

from rtc_server import metrics
from rtc_server.errors import BadEvent
from rtc_server.events import UnknownEvent
from rtc_server.http.sockets import AiohttpWire, SocketLimits, serve
from rtc_server.log import get_logger
from rtc_server.media.oggopus import OggOpusReader
from rtc_server.session.admission import Admission
from rtc_server.session.session import Session
from rtc_server.transports.websocket import moshi
from rtc_server.transports.websocket.leg import Pace, SocketLeg

log = get_logger(__name__)

MAX_LINE_BYTES = 64 * 1024
"""Of a request's first line. A persona stands in it, percent-encoded: the longest that an engine takes needs up to nine
bytes for a character. Proxies in front of a server often allow 8 KiB (nginx: ``large_client_header_buffers``)."""
TYPED_TEXT = BadEvent("typed text is not supported", hint="this agent is spoken to")


class Chat:
    """The handler; everything it needs is handed in.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, admission: Admission, clock: Callable[[], float], sockets: SocketLimits) -> None:
        self._admission = admission
        self._clock = clock
        self._sockets = sockets

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
        await wire.listen(leg, _Ear(leg).hear)

    def _add_leg(self, session: Session, wire: AiohttpWire) -> SocketLeg:
        attachment = session.expect_leg()
        leg = SocketLeg(wire, moshi.MoshiDialect(), Pace.REALTIME, attachment, self._clock)
        attachment.attach(leg)
        log.info("session created", session_id=session.id, kind=leg.kind)
        leg.start()
        return leg


class _Ear:
    """What a client sends. The stream of its voice begins with the socket, not with the conversation: its first pages
    may come early, and without them the rest could be of no use."""

    def __init__(self, leg: SocketLeg) -> None:
        self._leg = leg
        self._voice = OggOpusReader()
        self._told = False

    async def hear(self, message: str | bytes) -> None:
        kind, payload = moshi.split(message)
        match kind:
            case moshi.Kind.AUDIO:
                await self._leg.feed(self._voice.feed(payload))
            case moshi.Kind.TEXT:
                metrics.EVENTS_REJECTED.labels(TYPED_TEXT.code).inc()
                if not self._told:
                    self._told = True
                    self._leg.tell(moshi.refusal(TYPED_TEXT))
            case None:
                metrics.EVENTS_REJECTED.labels(UnknownEvent.code).inc()
            case _:  # control, metadata, ping: they showed that the client is there
                pass
