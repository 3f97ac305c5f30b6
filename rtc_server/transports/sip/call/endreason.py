"""Why a call ended: our word for it, and how the other end is told (RFC 3326)."""

from __future__ import annotations

from rtc_server.transports.sip.message.headers import Reason
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.trunk.callers import printable

MAX_DETAIL_CHARS = 200

_Q850 = {
    "busy": (17, "User busy"),
    "no_answer": (19, "No answer"),
    "internal_error": (41, "Temporary failure"),
    "engine_failed": (41, "Temporary failure"),
    "engine_lost": (41, "Temporary failure"),
    "media_refused": (88, "Incompatible destination"),
    "ack_lost": (102, "Recovery on timer expiry"),
    "session_expired": (102, "Recovery on timer expiry"),
    "peer_gone": (102, "Recovery on timer expiry"),
}
_NORMAL = (16, "Normal call clearing")

_STATUS = {
    "hangup": 603,
    "media_refused": 488,
    "internal_error": 500,
    "engine_failed": 500,
}
_UNAVAILABLE = 503

_OUTCOMES = {
    486: "busy",
    600: "busy",
    603: "declined",
    607: "declined",
    403: "refused",
    401: "unauthorized",
    407: "unauthorized",
    404: "no_such_number",
    410: "no_such_number",
    484: "no_such_number",
    604: "no_such_number",
    408: "no_answer",
    480: "no_answer",
    487: "no_answer",
    488: "media_refused",
    606: "media_refused",
    415: "media_refused",
}


def reason_header(reason: str) -> str:
    """The value of a Reason header for a BYE or a CANCEL of ours."""
    cause, text = _Q850.get(reason, _NORMAL)
    return str(Reason("Q.850", cause, text))


def status_for(reason: str) -> int:
    """What an INVITE is answered that will not become a call."""
    return _STATUS.get(reason, _UNAVAILABLE)


def outcome_of(status: int) -> str:
    """What a refusal of our INVITE means for who dialled: ``busy``, ``declined``, ``no_answer`` ... or ``failed``."""
    if 300 <= status < 400:
        return "redirected"
    return _OUTCOMES.get(status, "failed")


def told_by(request: Request | None) -> str | None:
    """What the other end says in its BYE or CANCEL. It is untrusted text, and cut."""
    value = None if request is None else request.headers.get("Reason")
    return None if value is None else printable(value, MAX_DETAIL_CHARS)
