"""``/v1/calls``: dial out, look at the calls that there are, hang up, transfer, press keys, and listen to what happens.

A call that was begun is a resource whatever becomes of it: ``POST /v1/calls`` answers 201 as soon as there is a slot
and it is about to ring, and with ``"wait": "answered"`` the same 201 comes when it has been answered or has ended. The
call's ``state`` and ``end_reason`` tell which. An error status means that there is no call.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from rtc_server.engine.stepper import MAX_SEED
from rtc_server.errors import BadRequest, CallNotFound, TelephonyOff
from rtc_server.http.callevents import PING_EVERY_S, serve_events
from rtc_server.http.sessions import read_text
from rtc_server.transports.sip.call.call import Call
from rtc_server.transports.sip.call.feed import FeedEvent
from rtc_server.transports.sip.useragent import UserAgent
from rtc_server.wrongfield import wrong_field

MAX_METADATA = 16
MAX_VALUE_CHARS = 256
MAX_URI_CHARS = 255
_DIAL_HINT = (
    'POST {"to": "+15550100"}; it may have from, trunk, persona, voice, seed, metadata and "wait": "answered" too'
)
_TRANSFER_HINT = 'POST {"to": "+15550100"}: a number, or a SIP or tel URI'
_DIGITS_HINT = 'POST {"digits": "12#"}'
_HANGUP_HINT = "POST without a body"
_NUMBER = re.compile(r"\+?[0-9]{1,32}")
_NAME = re.compile(r"X-[0-9A-Z-]{1,60}|(?!X-)[0-9A-Z_.-]{1,64}", re.IGNORECASE | re.ASCII)


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise ValueError("a name has letters, digits, _, . and -; as a header X- and letters, digits and -")
    return text


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a value is one line of printable characters")
    return text


class _Body(BaseModel):
    """A name that is not known would change nothing, unnoticed, and a call costs money: it is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_B = TypeVar("_B", bound=_Body)
_Name = Annotated[str, AfterValidator(_name)]
_Value = Annotated[str, Field(max_length=MAX_VALUE_CHARS), AfterValidator(_one_line)]


class DialBody(_Body):
    """What ``POST /v1/calls`` carries."""

    to: str = Field(min_length=1, max_length=MAX_URI_CHARS)
    """A number, or a SIP URI of which the number counts: where calls go, the trunk says."""
    from_: str | None = Field(default=None, alias="from", min_length=1, max_length=MAX_URI_CHARS)
    trunk: str | None = Field(default=None, min_length=1, max_length=64)
    persona: str | None = None
    voice: str | None = None
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    metadata: dict[_Name, _Value] = Field(default_factory=dict, max_length=MAX_METADATA)
    """Kept with the call. What is named X-... is a header of the INVITE too."""
    wait: Literal["answered"] | None = None


class TransferBody(_Body):
    to: str = Field(min_length=1, max_length=MAX_URI_CHARS)

    @property
    def uri(self) -> str:
        return f"tel:{self.to}" if _NUMBER.fullmatch(self.to) else self.to


class DigitsBody(_Body):
    digits: str


class HangupBody(_Body):
    """Nothing can be said."""


class PhoneCalls:
    """The handlers; everything they need is handed in.

    Args:
        agent: None where phone calls are off.
        clock: monotonic seconds, the agent's.
    """

    def __init__(
        self, agent: UserAgent | None, clock: Callable[[], float], *, ping_every_s: float = PING_EVERY_S
    ) -> None:
        self._maybe_agent = agent
        self._clock = clock
        self._ping_every_s = ping_every_s

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/calls", self.dial),
            web.get("/v1/calls", self.show_all),
            web.get("/v1/calls/events", self.all_events, allow_head=False),
            web.get("/v1/calls/{id}", self.show),
            web.get("/v1/calls/{id}/events", self.events, allow_head=False),
            web.post("/v1/calls/{id}/hangup", self.hangup),
            web.post("/v1/calls/{id}/transfer", self.transfer),
            web.post("/v1/calls/{id}/dtmf", self.dtmf),
        ]

    async def dial(self, request: web.Request) -> web.Response:
        agent = self._agent
        body = await _read(request, DialBody, _DIAL_HINT)
        call = await agent.dial(
            body.to, body.from_, body.trunk, body.persona, body.voice, body.metadata, seed=body.seed
        )
        if body.wait is not None:
            await _answered_or_ended(call)
        return web.json_response(self._described(call), status=201, headers={"Location": f"/v1/calls/{call.id}"})

    async def show_all(self, _request: web.Request) -> web.Response:
        """Those that last, then those that have ended not long ago, the last one first."""
        calls = self._agent.calls
        return web.json_response({"calls": [self._described(call) for call in (*calls, *calls.recently_ended())]})

    async def show(self, request: web.Request) -> web.Response:
        return web.json_response(self._described(self._call(request)))

    async def hangup(self, request: web.Request) -> web.Response:
        """Of a call that has ended too: whoever wants it to be over has what he wants."""
        call = self._call(request)
        await _read(request, HangupBody, _HANGUP_HINT, empty=True)
        call.hangup()
        return web.json_response(self._described(call))

    async def transfer(self, request: web.Request) -> web.Response:
        """202: the other end tries."""
        call = self._call(request)
        body = await _read(request, TransferBody, _TRANSFER_HINT)
        await call.transfer(body.uri)
        return web.json_response(self._described(call), status=202)

    async def dtmf(self, request: web.Request) -> web.Response:
        call = self._call(request)
        call.send_digits((await _read(request, DigitsBody, _DIGITS_HINT)).digits)
        return web.json_response(self._described(call))

    async def events(self, request: web.Request) -> web.WebSocketResponse:
        with contextlib.closing(self._call(request).feed.subscribe()) as events:
            return await serve_events(request, events, ping_every_s=self._ping_every_s)

    async def all_events(self, request: web.Request) -> web.WebSocketResponse:
        with contextlib.closing(self._agent.calls.feed.subscribe()) as events:
            return await serve_events(request, events, self._introduced, self._ping_every_s)

    # ---- in words ----------------------------------------------------------------------------------------------------

    @property
    def _agent(self) -> UserAgent:
        if self._maybe_agent is None:
            raise TelephonyOff("this server takes no phone calls", hint="set listen in [sip], see docs/telephony.md")
        return self._maybe_agent

    def _call(self, request: web.Request) -> Call:
        call_id = request.match_info["id"]
        call = self._agent.calls.get(call_id)
        if call is None:
            hint = "GET /v1/calls lists those that last and those that have just ended"
            raise CallNotFound(f"there is no call {call_id[:64]!r}", hint=hint)
        return call

    def _described(self, call: Call) -> dict[str, Any]:
        until_s = self._clock() if call.ended_s is None else call.ended_s
        return {
            "id": call.id,
            "direction": call.direction,
            "state": call.state.value,
            "trunk": call.trunk.name,
            "from": call.caller,
            "to": call.callee,
            "voice": None if call.prompt is None else call.prompt.voice,
            "metadata": call.metadata,
            "session_id": call.session_id,
            "lasted_s": round(until_s - call.started_s, 3),
            "end_reason": call.end_reason,
            "end_detail": call.end_detail,
        }

    def _introduced(self, event: FeedEvent) -> FeedEvent:
        """Who listens to all calls hears of each what it is, and in the end how it went."""
        call = self._agent.calls.get(event["call_id"]) if event["type"] in ("ringing", "ended") else None
        return event if call is None else {**event, "call": self._described(call)}


async def _answered_or_ended(call: Call) -> None:
    """Calls ring for a bounded time."""
    with contextlib.closing(call.feed.subscribe()) as events:
        async for event in events:
            if event["type"] in ("answered", "ended"):
                return


async def _read(request: web.Request, model: type[_B], hint: str, *, empty: bool = False) -> _B:
    """Raises: BadRequest, which names the field; TooLarge. `empty`: there need be no body."""
    text = await read_text(request)
    try:
        return model.model_validate_json("{}" if empty and not text.strip() else text)
    except ValidationError as error:
        raise wrong_field(BadRequest, error, whole="body", known=_known_fields(model), hint=hint) from None


def _known_fields(model: type[_Body]) -> str:
    names = [field.alias or name for name, field in model.model_fields.items()]
    if not names:
        return "this request has no fields"
    return f"known {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
