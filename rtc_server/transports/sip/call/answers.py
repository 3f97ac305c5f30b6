"""Responses of ours, and what they say of what we can do."""

from __future__ import annotations

from typing import NamedTuple

from rtc_server.errors import CapacityError, RtcServerError
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from rtc_server.transports.sip.transaction.base import ServerTransaction
from rtc_server.transports.sip.trunk.callers import printable

METHODS = ("INVITE", "ACK", "CANCEL", "BYE", "OPTIONS", "UPDATE", "PRACK", "INFO", "REFER", "NOTIFY")
EXTENSIONS = ("timer", "100rel")
SDP = "application/sdp"
RETRY_AFTER_S = 5
MAX_NAMED_CHARS = 100


def describe_us(response: Response) -> Response:
    """Adds what a 200 to INVITE and OPTIONS tells (RFC 3261 section 11.2)."""
    response.headers.set("Allow", ", ".join(METHODS))
    response.headers.set("Supported", ", ".join(EXTENSIONS))
    response.headers.set("Accept", SDP)
    return response


def describe_us_as_caller(request: Request, session_expires_s: int) -> None:
    """The same in an INVITE of ours, and how often the session is to be refreshed. 100rel is not among it: we take it
    where it is required, and do not ask for it."""
    request.headers.set("Session-Expires", str(session_expires_s))
    request.headers.set("Allow", ", ".join(METHODS))
    request.headers.set("Supported", "timer")
    request.headers.set("Accept", SDP)


def with_sdp(response: Response, body: bytes) -> Response:
    response.body = body
    response.headers.set("Content-Type", SDP)
    return response


class Refusal(NamedTuple):
    """A final response that has been sent, and why."""

    status: int
    cause: str


def refuse(transaction: ServerTransaction, status: int, **headers: str) -> None:
    """A final response; `Retry_After="5"` is the header Retry-After."""
    response = transaction.reply(status)
    if status == 405:
        response.headers.set("Allow", ", ".join(METHODS))
    for name, value in headers.items():
        response.headers.set(name.replace("_", "-"), value)
    transaction.respond(response)


def refuse_media(transaction: ServerTransaction, refusal: MediaRefused, agent: str) -> None:
    headers = {"Retry_After": "3"} if refusal.status == 500 else {}
    refuse(transaction, refusal.status, Warning=refusal.warning(agent), **headers)


def refuse_error(transaction: ServerTransaction, error: RtcServerError) -> int:
    """Nobody's fault: 503 and when to try again. A setting that this server cannot serve is 500. Returns which."""
    if isinstance(error, CapacityError) or error.http_status == 503:
        refuse(transaction, 503, Retry_After=str(error.retry_after_s or RETRY_AFTER_S))
        return 503
    refuse(transaction, 500)
    return 500


def refuse_extensions(transaction: ServerTransaction, request: Request) -> Refusal | None:
    """Refuse what requires an extension that is not known here (420)."""
    unsupported = ", ".join(name for name in request.headers.all("Require") if name.lower() not in EXTENSIONS)
    if not unsupported:
        return None
    refuse(transaction, 420, Unsupported=unsupported)
    return Refusal(420, f"it requires what is not known here: {printable(unsupported, MAX_NAMED_CHARS)}")


def refuse_unfit(transaction: ServerTransaction, request: Request) -> Refusal | None:
    """Refuse what asks for something that is not done here: an extension (420), a body other than a session description
    (415), an answer in another form (406)."""
    if (refusal := refuse_extensions(transaction, request)) is not None:
        return refusal
    if request.body and _type_of(request) != SDP:
        refuse(transaction, 415, Accept=SDP)
        return Refusal(415, "its body is no session description")
    if (request.headers.get("Content-Encoding") or "identity").strip().lower() != "identity":
        refuse(transaction, 415, Accept=SDP, Accept_Encoding="identity")
        return Refusal(415, "its body is compressed")
    if not _accepts_sdp(request):
        refuse(transaction, 406)
        return Refusal(406, "it accepts no session description")
    return None


def requires(message: Request | Response, extension: str) -> bool:
    return any(name.lower() == extension for name in message.headers.all("Require"))


def _type_of(request: Request) -> str:
    return (request.headers.get("Content-Type") or "").partition(";")[0].strip().lower()


def _accepts_sdp(request: Request) -> bool:
    ranges = [value.partition(";")[0].strip().lower() for value in request.headers.all("Accept")]
    return not ranges or any(item in (SDP, "application/*", "*/*") for item in ranges)
