"""``/v1/sessions``: an offer in, an answer out; later offers and candidates; the end.

The answer is ready at once: the server is ICE-lite, so there is nothing to gather, and the peer's candidates are never
needed. Order matters for strangers: limits and capacity are checked before anything is parsed or allocated.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rtc_server.engine.stepper import Sampling, SessionPrompt
from rtc_server.errors import BadRequest, ClientError, SessionNotFound, TooLarge
from rtc_server.log import get_logger
from rtc_server.session.admission import Admission
from rtc_server.session.registry import SessionRegistry
from rtc_server.session.session import Session
from rtc_server.transports.webrtc.offer import MAX_SDP_BYTES
from rtc_server.transports.webrtc.transport import WebRtcTransport

log = get_logger(__name__)

MAX_BODY_BYTES = 64 * 1024
BODY_TIMEOUT_S = 5.0
SDP = "application/sdp"


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


Temperature = Annotated[float, Field(ge=0, le=10)]
TopK = Annotated[int, Field(ge=0, le=100_000)]


class SamplingBody(_Body):
    audio_temperature: Temperature | None = None
    audio_top_k: TopK | None = None
    text_temperature: Temperature | None = None
    text_top_k: TopK | None = None


class OfferBody(_Body):
    """What a POST or a PATCH with a new offer carries."""

    sdp: str
    type: Literal["offer"] = "offer"
    persona: str | None = None
    voice: str | None = None
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    sampling: SamplingBody | None = None

    def prompt(self) -> SessionPrompt:
        sampling = Sampling(**self.sampling.model_dump()) if self.sampling else Sampling()
        return SessionPrompt(persona=self.persona, voice=self.voice, seed=self.seed, sampling=sampling)


@runtime_checkable
class Renegotiable(Protocol):
    """A leg that takes later offers."""

    async def renegotiate(self, offer_sdp: str) -> str:
        """The answer. Raises: BadOffer; the call then goes on as it was."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in the form of its offer: SDP for SDP, else JSON."""

    session_id: str
    sdp: str
    as_sdp: bool

    def response(self, status: int) -> web.Response:
        headers = {"Location": f"/v1/sessions/{self.session_id}"} if status == 201 else {}
        if self.as_sdp:
            return web.Response(text=self.sdp, content_type=SDP, status=status, headers=headers)
        body = {"id": self.session_id, "sdp": self.sdp, "type": "answer"}
        return web.json_response(body, status=status, headers=headers)


class Sessions:
    """The handlers; everything they need is handed in."""

    def __init__(self, admission: Admission, registry: SessionRegistry, webrtc: WebRtcTransport) -> None:
        self._admission = admission
        self._registry = registry
        self._webrtc = webrtc

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/sessions", self.create),
            web.patch("/v1/sessions/{id}", self.update),
            web.delete("/v1/sessions/{id}", self.delete),
        ]

    async def create(self, request: web.Request) -> web.Response:
        self._admission.check()
        offer = await read_offer(request)
        session = await self._admission.admit(offer.prompt())
        try:
            leg, answer_sdp = await self._webrtc.create(offer.sdp, session)
            session.attach(leg)
        except BaseException as error:
            # Whatever went wrong, a cancelled request included: the slot goes back.
            session.close("bad_offer" if isinstance(error, ClientError) else "setup_failed")
            raise
        log.info("session created", session_id=session.id, kind=leg.kind, leg=leg.id)
        return Answer(session.id, answer_sdp, request.content_type == SDP).response(201)

    async def update(self, request: web.Request) -> web.Response:
        session = self._registry.get(request.match_info["id"])
        if request.content_type == "application/trickle-ice-sdpfrag":
            await read_text(request)
            return web.Response(status=204)
        if request.content_type != SDP and "candidates" in (body := await read_json(request)):
            if not isinstance(body["candidates"], list):
                raise BadRequest("candidates is not a list")
            # The peer's checks tell where it is; its candidates are never needed.
            return web.Response(status=204)
        offer = await read_offer(request)
        answer_sdp = await self._leg(session).renegotiate(offer.sdp)
        return Answer(session.id, answer_sdp, request.content_type == SDP).response(200)

    async def delete(self, request: web.Request) -> web.Response:
        session = self._registry.get(request.match_info["id"])
        session.close("client_closed")
        await session.wait_closed()
        return web.Response(status=204)

    @staticmethod
    def _leg(session: Session) -> Renegotiable:
        leg = session.leg
        if not isinstance(leg, Renegotiable):
            raise SessionNotFound("this session is no WebRTC call", hint="only WebRTC calls take offers")
        return leg


async def read_offer(request: web.Request) -> OfferBody:
    """An offer as JSON or as plain SDP. Raises: BadRequest, TooLarge."""
    if request.content_type == SDP:
        offer = OfferBody(sdp=await read_text(request))
    else:
        try:
            offer = OfferBody.model_validate(await read_json(request))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadRequest(f"{where}: {first['msg']}", hint="POST {sdp, type: 'offer', persona?, voice?}") from None
    if len(offer.sdp.encode(errors="replace")) > MAX_SDP_BYTES:
        raise TooLarge(f"the SDP is over {MAX_SDP_BYTES} bytes", hint="an audio call needs 2 to 8 KiB")
    return offer


async def read_json(request: web.Request) -> dict[str, Any]:
    """Raises: BadRequest, TooLarge."""
    text = await read_text(request)
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON", hint=f"send application/json or {SDP}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object")
    return body


async def read_text(request: web.Request) -> str:
    """The body as UTF-8; aiohttp enforces the size limit. Raises: BadRequest, TooLarge."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return (await request.read()).decode()
    except TimeoutError:
        raise BadRequest(f"the body did not come within {BODY_TIMEOUT_S:.0f} s") from None
    except (web.RequestPayloadError, ConnectionError):
        raise BadRequest("the body cannot be read", hint="check Content-Encoding and Transfer-Encoding") from None
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8") from None
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge(f"the body is over {MAX_BODY_BYTES} bytes") from None
