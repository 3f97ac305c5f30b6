"""Who may talk to the API: the key, the page's origin, the host name.

Laws: a key is compared in constant time and never logged. A browser says where a page comes from; a page of another
origin gets nothing, unless it is allowed. Without a key, a host *name* other than localhost is refused, since a hostile
name may point at this machine (DNS rebinding); an address cannot be rebound.
"""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from rtc_server.config import HttpSettings
from rtc_server.errors import ForbiddenOrigin, Unauthorized
from rtc_server.http.sessions import RESUME_TOKEN

ALLOWED_ORIGIN = web.RequestKey("allowed_origin", object)


class Gate:
    """Decides on each request under ``/v1`` and ``/api``."""

    def __init__(self, settings: HttpSettings) -> None:
        key = settings.api_key if settings.needs_key else None
        self._key = key.get_secret_value().encode() if key is not None else None
        self._allowed_origins = frozenset(settings.allow_origin)
        self._allowed_hosts = frozenset(urlsplit(origin).hostname or "" for origin in settings.allow_origin)
        self._own_host = settings.host
        self._check_host = settings.loopback or settings.auth != "none"

    @property
    def needs_key(self) -> bool:
        return self._key is not None

    def origin(self, request: web.Request) -> str | None:
        """The allowed foreign origin of a request, None for our own or none at all. Raises: ForbiddenOrigin."""
        origin = request.headers.get("Origin")
        if origin is None:
            return None
        if origin in self._allowed_origins:
            return origin
        if origin.partition("://")[2] == request.host:
            return None
        raise ForbiddenOrigin(f"origin {origin[:100]!r} may not use this server", hint="allow it with --allow-origin")

    def check_host(self, request: web.Request) -> None:
        """Raises: ForbiddenOrigin."""
        if self.needs_key or not self._check_host:
            return
        name = _host_name(request.host)
        if name == "localhost" or name.endswith(".localhost") or name == self._own_host or name in self._allowed_hosts:
            return
        try:
            ipaddress.ip_address(name)
        except ValueError:
            raise ForbiddenOrigin(
                f"host name {name[:100]!r} is not known here",
                hint="use localhost or an address, allow it with --allow-origin, or set RTC_API_KEY",
            ) from None

    def check_key(self, request: web.Request) -> None:
        """Bearer header, or ``?token=`` where a client cannot send headers. Raises: Unauthorized."""
        if self._key is None:
            return
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = request.query.get("token", "")
        if not hmac.compare_digest(given.strip().encode(errors="backslashreplace"), self._key):
            raise Unauthorized(
                "the API key is missing or wrong",
                hint="send Authorization: Bearer KEY, or open the page with #token=KEY at the end of its address",
            )


def gate_middleware(gate: Gate) -> Middleware:
    """Lets through what `gate` allows. What lies outside the two APIs (page, health) is open to everybody."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.startswith(("/v1/", "/api/")):
            return await handler(request)
        request[ALLOWED_ORIGIN] = gate.origin(request)
        gate.check_host(request)
        if request.method == "OPTIONS":
            return web.Response(status=204)
        gate.check_key(request)
        return await handler(request)

    return middleware


async def allow_cross_origin(request: web.Request, response: web.StreamResponse) -> None:
    """Signal handler: every answer to an allowed foreign page, an error too, must be readable for it (CORS)."""
    origin = request.get(ALLOWED_ORIGIN)
    if origin is not None:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Allow-Methods"] = "GET, POST, PATCH, DELETE, OPTIONS"
        response.headers["Access-Control-Allow-Headers"] = f"Authorization, Content-Type, If-Match, {RESUME_TOKEN}"
        response.headers["Access-Control-Expose-Headers"] = "ETag, Link, Location, Retry-After"
        response.headers["Vary"] = "Origin"


def _host_name(host: str) -> str:
    """The host without its port; IPv6 without brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
