"""``/v1/connectivity``: does this client's network let a call through? An offer in, an answer out, and no session.

See `transports.webrtc.connectivitytest`. Key and origin are asked for as for a call. Tests that are still connecting
count beside the calls that are: together they are at most ``session.max_half_open``.
"""

from __future__ import annotations

from typing import Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from rtc_server.errors import EngineDraining, TooManyHalfOpen
from rtc_server.http.sessions import check_size, read_json, validated
from rtc_server.log import get_logger
from rtc_server.session.admission import Admission
from rtc_server.session.registry import SessionRegistry
from rtc_server.session.session import State
from rtc_server.transports.webrtc.transport import WebRtcTransport

log = get_logger(__name__)


class DataOffer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    sdp: str
    type: Literal["offer"] = "offer"


class ConnectivityTests:
    """The handler; everything it needs is handed in."""

    def __init__(
        self, admission: Admission, registry: SessionRegistry, webrtc: WebRtcTransport, max_half_open: int
    ) -> None:
        self._admission = admission
        self._registry = registry
        self._webrtc = webrtc
        self._max_half_open = max_half_open

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/connectivity", self.create)]

    async def create(self, request: web.Request) -> web.Response:
        self._check()
        offer = validated(DataOffer, await read_json(request), "POST {sdp, type: 'offer'} with a data channel")
        check_size(offer.sdp)
        self._check()  # others may have come while the body did
        test, answer_sdp = self._webrtc.test(offer.sdp)
        log.info("connectivity test begun", test=test.id)
        return web.json_response({"id": test.id, "sdp": answer_sdp, "type": "answer"}, status=201)

    def _check(self) -> None:
        """Raises: EngineDraining, TooManyTests, TooManyHalfOpen."""
        if self._admission.draining:
            raise EngineDraining("the server is shutting down", hint="try again in half a minute")
        self._webrtc.check_tests()
        half_open = sum(session.state is State.CONNECTING for session in self._registry)
        half_open += sum(not test.connected for test in self._webrtc.tests)
        if half_open >= self._max_half_open:
            raise TooManyHalfOpen(f"{half_open} connections are being set up", hint="try again in a few seconds")
