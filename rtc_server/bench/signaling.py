"""Offer and answer over HTTP, in the dialects of the servers that can be measured."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urljoin, urlsplit

import aiohttp

from rtc_server.errors import ConfigError, PeerError

ADAPTERS = ("plain", "whip", "fastrtc")
"""``plain``: JSON {sdp, type} both ways. ``whip``: application/sdp both ways (RFC 9725). ``fastrtc``: plain with a
``webrtc_id``."""

SESSIONS_PATH = "/v1/sessions"
TIMEOUT_S = 15.0
MAX_QUOTED_CHARS = 200


@dataclass(frozen=True, slots=True)
class Answer:
    sdp: str
    resource: str | None
    """Where a DELETE ends the call, if the server said so."""


def offer_url(url: str) -> str:
    """A bare server address means our own sessions; anything with a path is taken as it stands.

    Raises: ConfigError when it is no http or https URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"--url {url!r} is not an http or https URL", hint="for example http://127.0.0.1:8080")
    return url.rstrip("/") + SESSIONS_PATH if parts.path in ("", "/") else url


class Signaling:
    """One HTTP client for all calls; sends ``RTC_API_KEY`` as bearer token if the environment has it."""

    def __init__(self, http: aiohttp.ClientSession, url: str, adapter: str) -> None:
        self._http = http
        self._url = offer_url(url)
        self._adapter = adapter
        key = os.environ.get("RTC_API_KEY")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def exchange(self, offer: str, seed: int | None = None) -> Answer:
        """Post an offer; `seed` is what the conversation starts from, for servers that take one (``plain``).

        Raises: PeerError when the server cannot be reached, refuses, or answers with something else than an SDP.
        """
        if self._adapter == "whip":
            status, body, location = await self._send("POST", self._url, offer, "application/sdp")
            if status not in (200, 201):
                _refused(status, body)
            return Answer(body, self._resource(location))
        message: dict[str, str | int] = {"sdp": offer, "type": "offer"}
        if self._adapter == "fastrtc":
            message["webrtc_id"] = secrets.token_hex(8)
        elif seed is not None:
            message["seed"] = seed
        status, body, location = await self._send("POST", self._url, json.dumps(message), "application/json")
        return Answer(_answered(status, body), self._resource(location))

    async def update(self, answer: Answer, offer: str) -> str:
        """A later offer of the call that `answer` began; returns its answer.

        Raises: PeerError as `exchange` does, and for a server that did not say where the call's resource is.
        """
        if answer.resource is None:
            raise PeerError("the server named no resource for the call", hint="later offers need a Location header")
        message = json.dumps({"sdp": offer, "type": "offer"})
        status, body, _ = await self._send("PATCH", answer.resource, message, "application/json")
        return _answered(status, body)

    async def hang_up(self, answer: Answer) -> None:
        """End a call by its resource; a server that knows none, or is gone, is left to its timeouts."""
        if answer.resource is None:
            return
        try:
            async with self._http.delete(answer.resource, headers=self._headers):
                pass
        except (aiohttp.ClientError, TimeoutError):
            return

    async def _send(self, method: str, url: str, text: str, content_type: str) -> tuple[int, str, str | None]:
        headers = {**self._headers, "Content-Type": content_type}
        try:
            async with self._http.request(method, url, data=text.encode(), headers=headers) as response:
                return response.status, await response.text(), response.headers.get("Location")
        except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError) as error:
            raise PeerError(
                f"cannot reach {url}: {error or type(error).__name__}", hint="is the server running there?"
            ) from None

    def _resource(self, location: str | None) -> str | None:
        return urljoin(self._url, location) if location else None


def _answered(status: int, body: str) -> str:
    """The SDP of a JSON answer. Raises: PeerError."""
    if status not in (200, 201):
        _refused(status, body)
    try:
        return str(json.loads(body)["sdp"])
    except (ValueError, KeyError, TypeError):
        _refused(status, body)


def _refused(status: int, body: str) -> NoReturn:
    """Raises: PeerError with the reason that the server gave."""
    try:
        reason = json.loads(body)
        text = f"{reason['code']}: {reason['message']}"
        hint = str(reason.get("hint", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        text, hint = " ".join(body.split())[:MAX_QUOTED_CHARS] or "no reason given", ""
    raise PeerError(f"the server refused the offer with HTTP {status}: {text}", hint=hint)
