"""The web application: routes and middleware, put together."""

from __future__ import annotations

from typing import Protocol

from aiohttp import hdrs, web

from rtc_server.http.auth import Gate, allow_cross_origin, gate_middleware
from rtc_server.http.errors import error_middleware
from rtc_server.http.info import Info
from rtc_server.http.page import Page
from rtc_server.http.sessions import MAX_BODY_BYTES, Sessions
from rtc_server.http.sockets import SOCKETS, close_sockets
from rtc_server.http.webui import WebUi


class Endpoint(Protocol):
    """A part of the API."""

    def routes(self) -> list[web.RouteDef]: ...


def create_app(gate: Gate, sessions: Sessions, info: Info, page: Page | WebUi, *sockets: Endpoint) -> web.Application:
    app = web.Application(middlewares=[error_middleware, gate_middleware(gate)], client_max_size=MAX_BODY_BYTES)
    app.add_routes([*sessions.routes(), *info.routes(), *page.routes()])
    for endpoint in sockets:
        app.add_routes(endpoint.routes())
    app.on_response_prepare.append(allow_cross_origin)
    app.on_response_prepare.append(keep_versions_private)
    app[SOCKETS] = set()
    app.on_shutdown.append(close_sockets)
    return app


async def keep_versions_private(_: web.Request, response: web.StreamResponse) -> None:
    """Nobody outside need know which Python and aiohttp answer (RFC 9110 10.2.4), 80 times for one page."""
    response.headers.pop(hdrs.SERVER, None)
