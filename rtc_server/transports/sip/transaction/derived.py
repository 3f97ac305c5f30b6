"""Messages that follow from another one: a response to a request, the ACK to a refusal, the CANCEL of an INVITE."""

from __future__ import annotations

from rtc_server.transports.sip.message.headers import MAX_FORWARDS, CSeq, NameAddr
from rtc_server.transports.sip.message.message import Headers, Request, Response

REASONS = {
    100: "Trying",
    180: "Ringing",
    181: "Call Is Being Forwarded",
    182: "Queued",
    183: "Session Progress",
    200: "OK",
    202: "Accepted",
    300: "Multiple Choices",
    301: "Moved Permanently",
    302: "Moved Temporarily",
    305: "Use Proxy",
    380: "Alternative Service",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    407: "Proxy Authentication Required",
    408: "Request Timeout",
    410: "Gone",
    413: "Request Entity Too Large",
    414: "Request-URI Too Long",
    415: "Unsupported Media Type",
    416: "Unsupported URI Scheme",
    420: "Bad Extension",
    421: "Extension Required",
    422: "Session Interval Too Small",
    423: "Interval Too Brief",
    433: "Anonymity Disallowed",
    480: "Temporarily Unavailable",
    481: "Call/Transaction Does Not Exist",
    482: "Loop Detected",
    483: "Too Many Hops",
    484: "Address Incomplete",
    485: "Ambiguous",
    486: "Busy Here",
    487: "Request Terminated",
    488: "Not Acceptable Here",
    489: "Bad Event",
    491: "Request Pending",
    493: "Undecipherable",
    500: "Server Internal Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Server Time-out",
    505: "Version Not Supported",
    513: "Message Too Large",
    600: "Busy Everywhere",
    603: "Decline",
    604: "Does Not Exist Anywhere",
    606: "Not Acceptable",
    607: "Unwanted",
}
"""RFC 3261 section 21, and 422 (RFC 4028), 433 (RFC 5079), 489 (RFC 6665), 607 (RFC 8197)."""


def response_to(request: Request, status: int, to_tag: str, reason: str = "") -> Response:
    """A response without Contact or body, with the headers of section 8.2.6. A 100 has no tag of ours."""
    headers = Headers()
    for name in ("Via", "From"):
        for value in request.headers.all(name):
            headers.add(name, value)
    to = request.headers.get("To") or ""
    headers.add("To", to if status == 100 or "tag" in NameAddr.parse(to).params else f"{to};tag={to_tag}")
    names = ("Call-ID", "CSeq", "Timestamp") if status == 100 else ("Call-ID", "CSeq")
    _copy(request, names, headers)
    return Response(status, reason or REASONS.get(status, "Unknown"), headers, b"")


def ack_to(invite: Request, response: Response) -> Request:
    """The ACK to a refusal. It belongs to the transaction of the INVITE (section 17.1.1.3)."""
    ack = _of_same_transaction(invite, "ACK")
    ack.headers.set("To", response.headers.get("To") or "")
    return ack


def cancel_of(invite: Request, reason: str | None = None) -> Request:
    """Section 9.1; `reason` is the value of a Reason header (RFC 3326)."""
    cancel = _of_same_transaction(invite, "CANCEL")
    if reason is not None:
        cancel.headers.add("Reason", reason)
    return cancel


def _of_same_transaction(invite: Request, method: str) -> Request:
    headers = Headers()
    headers.add("Via", invite.headers.all("Via")[0])
    headers.add("Max-Forwards", MAX_FORWARDS)
    _copy(invite, ("From", "To", "Call-ID", "Route"), headers)
    headers.add("CSeq", f"{CSeq.parse(invite.headers.get('CSeq') or '').number} {method}")
    return Request(method, invite.uri, headers, b"")


def _copy(message: Request, names: tuple[str, ...], headers: Headers) -> None:
    for name in names:
        for value in message.headers.all(name):
            headers.add(name, value)
