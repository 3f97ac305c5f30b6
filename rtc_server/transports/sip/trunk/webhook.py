"""Asks an application about each incoming call: take it, as whom, or refuse it?

One POST with a JSON body ``{call_id, trunk, from, to, headers}``. Its header ``X-RTC-Signature: t=SECONDS,v1=HEX`` lets
the application know that we have sent it, and when: HEX is the HMAC-SHA256 of ``SECONDS.BODY`` under the shared secret.
The answer is ``{"action": "accept", "persona": ..., "voice": ...}`` or ``{"action": "reject", "status": ...}``; all but
the action may be left out. The caller hears nothing meanwhile, so what has not come in time does not count.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

from rtc_server.log import get_logger

log = get_logger(__name__)

SIGNATURE_HEADER = "X-RTC-Signature"
DECLINED = 603
"""What a caller is told whom the application rejects without a status of its own."""
NEED_A_HEADER = frozenset({401, 405, 407, 415, 420, 421, 422, 423, 469, 489, 494})
"""Without a header of its own such a response means nothing (RFC 3261 section 21.4, 3329, 4028, 6086, 6665)."""
UNAVAILABLE = 480
"""What a caller is told where the application does not answer."""
MAX_ANSWER_BYTES = 128 * 1024
MAX_CAUSE_CHARS = 200
MAX_AT_ONCE = 64
"""Connections; further calls wait for one, within their time."""


@dataclass(frozen=True, slots=True)
class IncomingCall:
    call_id: str
    trunk: str
    caller: str | None
    """None: withheld."""
    callee: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """The metadata of the call: a stranger's words."""

    def to_json(self) -> bytes:
        body = {"call_id": self.call_id, "trunk": self.trunk, "from": self.caller, "to": self.callee}
        return json.dumps({**body, "headers": dict(self.headers)}).encode()


@dataclass(frozen=True, slots=True)
class Accept:
    """None: what the rule of the number says."""

    persona: str | None = None
    voice: str | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    status: int = DECLINED
    """Of the response to the INVITE, 400 to 699."""
    failure: str | None = field(default=None, compare=False)
    """Why it is not the application that rejects, but the setting for where it gives no good answer."""


class WebhookError(Exception):
    """No answer, or none that can be used. Never leaves `Webhook.decide`."""


class Webhook:
    """Owns the HTTP connections to the application. Loop thread.

    Args:
        timeout_s: from the question to the end of the answer, whatever happens on the way.
        on_failure: what becomes of a call where there is no good answer.
        wall_clock: seconds since 1970, for the signature.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        timeout_s: float = 3.0,
        on_failure: Literal["accept", "reject"] = "reject",
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._url = url
        self._secret = secret.encode()
        self._timeout_s = timeout_s
        self._on_failure = on_failure
        self._wall_clock = wall_clock
        self._http: aiohttp.ClientSession | None = None
        self._closed = False

    async def decide(self, call: IncomingCall) -> Accept | Reject:
        """The application's decision. Raises nothing but CancelledError."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return read_decision(await self._ask(call.to_json()))
        except WebhookError as error:
            return self.undecided(call.call_id, str(error))
        except TimeoutError:
            return self.undecided(call.call_id, f"no answer within {self._timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # An address in a message of aiohttp's would be the application's own.
            return self.undecided(call.call_id, f"{type(error).__name__}: {error}")

    def undecided(self, call_id: str, cause: str) -> Accept | Reject:
        """What becomes of a call of which the application has said nothing that can be done, and why."""
        cause = cause[:MAX_CAUSE_CHARS]
        log.warning("webhook gave no decision", call_id=call_id, error=cause, on_failure=self._on_failure)
        return Accept() if self._on_failure == "accept" else Reject(UNAVAILABLE, cause)

    async def close(self) -> None:
        """Ends what is still being asked. May be called twice."""
        self._closed = True
        if self._http is not None:
            await self._http.close()

    async def _ask(self, body: bytes) -> bytes:
        if self._closed:
            raise WebhookError("the server is shutting down")
        if self._http is None:
            self._http = aiohttp.ClientSession(
                # An application may close a connection that it has kept just when it is asked again, and nobody may
                # repeat a POST by himself (RFC 9110 section 9.2.2): one question, one connection.
                connector=aiohttp.TCPConnector(limit=MAX_AT_ONCE, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            SIGNATURE_HEADER: sign(self._secret, int(self._wall_clock()), body),
        }
        async with self._http.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
            if answer.status != 200:
                raise WebhookError(f"HTTP status {answer.status}")
            content = bytearray()
            async for chunk in answer.content.iter_any():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    answer.close()
                    raise WebhookError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
            return bytes(content)


def sign(secret: bytes, time_s: int, body: bytes) -> str:
    """The signature header of a question that is asked now. `time_s`: since 1970."""
    digest = hmac.new(secret, b"%d." % time_s + body, hashlib.sha256).hexdigest()
    return f"t={time_s},v1={digest}"


def read_decision(content: bytes) -> Accept | Reject:
    """Fields that are not known are left alone. Raises: WebhookError."""
    try:
        answer: Any = json.loads(content)
    except (ValueError, RecursionError):
        raise WebhookError("the answer is not JSON") from None
    action = answer.get("action") if isinstance(answer, dict) else None
    if action == "accept":
        return Accept(_text(answer, "persona"), _text(answer, "voice"))
    if action == "reject":
        status = answer.get("status", DECLINED)
        if type(status) is not int or not 400 <= status <= 699:
            raise WebhookError("the status is not one from 400 to 699")
        if status in NEED_A_HEADER:
            raise WebhookError(f"the status {status} needs a header that cannot be given: choose 403, 480, 486 or 603")
        return Reject(status)
    raise WebhookError('the action is neither "accept" nor "reject"')


def _text(answer: Mapping[str, Any], name: str) -> str | None:
    """How long it may be, the engine knows."""
    value = answer.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or value != value.encode(errors="ignore").decode():
        raise WebhookError(f"{name} is no text")
    return value
