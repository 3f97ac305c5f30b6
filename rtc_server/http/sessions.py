"""``/v1/sessions``: an offer in, an answer out; later offers and candidates; the end.

The answer is ready at once: the server is ICE-lite, so there is nothing to gather, and the peer's candidates are never
needed. Order matters for strangers: limits and capacity are checked before anything is allocated. An offer with a
resume token makes a new leg for the session that the token belongs to. It needs no slot, so it is let in where others
are refused; persona, voice and the like are ignored, for the conversation keeps its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rtc_server.engine.stepper import MAX_SEED, MAX_TEMPERATURE, MAX_TOP_K, Sampling, SessionPrompt
from rtc_server.errors import (
    BadRequest,
    ClientError,
    NotConnected,
    OldIceSession,
    RtcServerError,
    SessionNotFound,
    TooLarge,
)
from rtc_server.http.icefragment import OfferAnswer, fingerprint_of, origin_of
from rtc_server.log import get_logger
from rtc_server.session.admission import Admission
from rtc_server.session.registry import SessionRegistry
from rtc_server.session.session import Session
from rtc_server.transports.webrtc.offer import MAX_SDP_BYTES
from rtc_server.transports.webrtc.transport import WebRtcTransport
from rtc_server.transports.webrtc.turn import IceServer, IceServers
from rtc_server.wrongfield import wrong_field

log = get_logger(__name__)

MAX_BODY_BYTES = 64 * 1024
BODY_TIMEOUT_S = 5.0
SDP = "application/sdp"
SDP_FRAGMENT = "application/trickle-ice-sdpfrag"
RESUME_TOKEN = "Resume-Token"
"""The header that carries the token where the body is SDP."""
MAX_TOKEN_CHARS = 256


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


Temperature = Annotated[float, Field(ge=0, le=MAX_TEMPERATURE)]
TopK = Annotated[int, Field(ge=0, le=MAX_TOP_K)]


class SamplingBody(_Body):
    """A name that is not known would change nothing, unnoticed: it is refused, unlike other fields."""

    model_config = ConfigDict(extra="forbid")

    audio_temperature: Temperature | None = None
    audio_top_k: TopK | None = None
    text_temperature: Temperature | None = None
    text_top_k: TopK | None = None


SAMPLING_HINT = f"sampling takes {', '.join(SamplingBody.model_fields)}"


class OfferBody(_Body):
    """What a POST or a PATCH with a new offer carries."""

    sdp: str
    type: Literal["offer"] = "offer"
    persona: str | None = None
    voice: str | None = None
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    sampling: SamplingBody | None = None
    resume: str | None = Field(default=None, max_length=MAX_TOKEN_CHARS, repr=False)
    """Token of the conversation that is to go on over this call."""
    last_event: int | None = Field(default=None, ge=0, lt=2**53)
    """`seq` of the last event that the caller knows of."""

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
    agreed: OfferAnswer
    as_sdp: bool
    more: dict[str, Any] = field(default_factory=dict)
    """What the JSON has beside id and sdp."""
    ice_servers: tuple[IceServer, ...] = ()
    """For the header ``Link``."""

    def response(self, status: int) -> web.Response:
        headers = {"Location": f"/v1/sessions/{self.session_id}"} if status == 201 else {}
        if links := ", ".join(link for server in self.ice_servers for link in server.links()):
            headers["Link"] = links
        if self.agreed.entity_tag:
            headers["ETag"] = self.agreed.entity_tag
        if self.as_sdp:
            return web.Response(text=self.agreed.answer, content_type=SDP, status=status, headers=headers)
        body = {"id": self.session_id, "sdp": self.agreed.answer, "type": "answer", **self.more}
        return web.json_response(body, status=status, headers=headers)


class Sessions:
    """The handlers; everything they need is handed in."""

    def __init__(
        self, admission: Admission, registry: SessionRegistry, webrtc: WebRtcTransport, ice_servers: IceServers
    ) -> None:
        self._admission = admission
        self._registry = registry
        self._webrtc = webrtc
        self._ice_servers = ice_servers
        self._agreed: MutableMapping[Any, OfferAnswer] = WeakKeyDictionary()
        """By leg."""

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/sessions", self.create),
            web.patch("/v1/sessions/{id}", self.update),
            web.delete("/v1/sessions/{id}", self.delete),
        ]

    async def create(self, request: web.Request) -> web.Response:
        refusal: RtcServerError | None = None
        try:
            self._admission.check()
        except RtcServerError as error:
            refusal = error
        try:
            offer = await read_offer(request)
        except ClientError as error:
            raise refusal or error from None
        if offer.resume is None and refusal is not None:
            raise refusal
        session, agreed = await (self._begin(offer) if offer.resume is None else self._resume(offer, offer.resume))
        as_sdp = request.content_type == SDP
        more: dict[str, Any] = {}
        servers = self._ice_servers.issue()
        if not as_sdp:
            more = {"resume_token": session.give_token(), "resumed": offer.resume is not None}
            more["ice_servers"] = [server.to_json() for server in servers]
        return Answer(session.id, agreed, as_sdp, more, servers).response(201)

    async def _begin(self, offer: OfferBody) -> tuple[Session, OfferAnswer]:
        session = await self._admission.admit(offer.prompt())
        try:
            agreed = await self._add_leg(session, offer)
        except BaseException as error:
            # Whatever went wrong, a cancelled request included: the slot goes back.
            session.close("bad_offer" if isinstance(error, ClientError) else "setup_failed")
            raise
        log.info("session created", session_id=session.id)
        return session, agreed

    async def _resume(self, offer: OfferBody, token: str) -> tuple[Session, OfferAnswer]:
        """A new leg for a session that exists. Whatever goes wrong changes nothing for it."""
        session = self._admission.resume(token)
        return session, await self._add_leg(session, offer)

    async def _add_leg(self, session: Session, offer: OfferBody) -> OfferAnswer:
        attachment = session.expect_leg(offer.last_event)
        leg, answer_sdp = await self._webrtc.create(offer.sdp, attachment)
        attachment.attach(leg)
        log.info("leg made", session_id=session.id, state=session.state.value, kind=leg.kind, leg=leg.id)
        agreed = self._agreed[leg] = OfferAnswer(offer.sdp, answer_sdp)
        return agreed

    async def update(self, request: web.Request) -> web.Response:
        session = self._registry.get(request.match_info["id"])
        if request.content_type == SDP_FRAGMENT:
            return await self._update_ice(request, session)
        if request.content_type != SDP and "candidates" in (body := await read_json(request)):
            if not isinstance(body["candidates"], list):
                raise BadRequest("candidates is not a list", hint='send {"candidates": []}')
            # The peer's checks tell where it is; its candidates are never needed.
            return web.Response(status=204)
        offer = await read_offer(request)
        agreed = await self._renegotiate(self._leg_of(session, offer.sdp), offer.sdp)
        return Answer(session.id, agreed, request.content_type == SDP).response(200)

    async def _update_ice(self, request: web.Request, session: Session) -> web.Response:
        """A WHIP client's candidates, or its ICE restart (RFC 9725, sections 4.3.2 and 4.3.3)."""
        fragment = await read_text(request)
        legs, named = self._legs(session), request.headers.get("If-Match", "*")
        leg = next((leg for leg in legs if self._agreed_by(leg).entity_tag == named), legs[0])
        agreed = self._agreed_by(leg)
        if named not in ("*", agreed.entity_tag):
            raise OldIceSession("If-Match names an ICE session that is over", hint="restart ICE with If-Match: *")
        offer = agreed.restarted_by(fragment)
        if offer is None:
            return web.Response(status=204)
        check_size(offer)
        agreed = await self._renegotiate(leg, offer)
        headers = {"ETag": agreed.entity_tag}
        return web.Response(text=agreed.answer_fragment, content_type=SDP_FRAGMENT, headers=headers)

    async def _renegotiate(self, leg: Renegotiable, offer_sdp: str) -> OfferAnswer:
        agreed = self._agreed[leg] = OfferAnswer(offer_sdp, await leg.renegotiate(offer_sdp))
        return agreed

    async def delete(self, request: web.Request) -> web.Response:
        session = self._registry.get(request.match_info["id"])
        session.close("client_closed")
        await session.wait_closed()
        return web.Response(status=204)

    def _leg_of(self, session: Session, offer_sdp: str) -> Renegotiable:
        """The leg whose peer made this offer, else the newest: a leg asked for to resume may never come about."""
        legs = self._legs(session)
        for name in (origin_of, fingerprint_of):
            wanted = name(offer_sdp)
            for leg in legs:
                if wanted and name(self._agreed_by(leg).offer) == wanted:
                    return leg
        return legs[0]

    def _agreed_by(self, leg: Renegotiable) -> OfferAnswer:
        return self._agreed.get(leg, OfferAnswer("", ""))

    @staticmethod
    def _legs(session: Session) -> list[Renegotiable]:
        """Newest first, never empty. Raises: NotConnected, SessionNotFound."""
        if not session.legs:
            hint = "take the conversation over: POST /v1/sessions with `resume`"
            raise NotConnected("the session's connection is closed", hint=hint)
        legs: list[Renegotiable] = [leg for leg in session.legs if isinstance(leg, Renegotiable)]
        if not legs:
            raise SessionNotFound("this session is no WebRTC call", hint="only WebRTC calls take offers")
        return legs


async def read_offer(request: web.Request) -> OfferBody:
    """An offer as JSON or as plain SDP. Raises: BadRequest, TooLarge."""
    if request.content_type == SDP:
        token = request.headers.get(RESUME_TOKEN, "")[:MAX_TOKEN_CHARS]
        if not token.isascii():
            raise BadRequest(f"{RESUME_TOKEN} is no token", hint="send the resume_token of the session as it came")
        offer = OfferBody(sdp=await read_text(request), resume=token or None)
    else:
        offer = validated(OfferBody, await read_json(request), "POST {sdp, type: 'offer', persona?, voice?}")
    check_size(offer.sdp)
    return offer


_Model = TypeVar("_Model", bound=BaseModel)


def validated(model: type[_Model], body: dict[str, Any], hint: str) -> _Model:
    """Raises: BadRequest, which names the field that is wrong."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise wrong_field(BadRequest, error, whole="body", known=SAMPLING_HINT, hint=hint) from None


def check_size(sdp: str) -> None:
    """Raises: TooLarge."""
    if len(sdp.encode(errors="replace")) > MAX_SDP_BYTES:
        raise TooLarge(f"the SDP is over {MAX_SDP_BYTES} bytes", hint="an audio call needs 2 to 8 KiB")


async def read_json(request: web.Request) -> dict[str, Any]:
    """Raises: BadRequest, TooLarge."""
    text = await read_text(request)
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON", hint=f"send application/json or {SDP}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object", hint='send one such as {"sdp": "v=0...", "type": "offer"}')
    return body


async def read_text(request: web.Request) -> str:
    """The body as UTF-8; aiohttp enforces the size limit. Raises: BadRequest, TooLarge."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return (await request.read()).decode()
    except TimeoutError:
        hint = "send all of it at once; is Content-Length right?"
        raise BadRequest(f"the body did not come within {BODY_TIMEOUT_S:.0f} s", hint=hint) from None
    except (web.RequestPayloadError, ConnectionError):
        raise BadRequest("the body cannot be read", hint="check Content-Encoding and Transfer-Encoding") from None
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8", hint="write it as UTF-8") from None
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge(f"the body is over {MAX_BODY_BYTES} bytes", hint="see limits in /v1/config") from None
