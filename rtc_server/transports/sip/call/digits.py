"""Digits of a phone's keypad, as text."""

from __future__ import annotations

import re

from rtc_server.errors import BadRequest
from rtc_server.transports.sip.message.message import Request

MAX_DIGITS = 32
RELAY, PLAIN = "application/dtmf-relay", "application/dtmf"

_DIGITS = re.compile(rf"[0-9A-D*#]{{1,{MAX_DIGITS}}}")
_SIGNAL = re.compile(r"^\s*Signal\s*=\s*(\S+)\s*$", re.IGNORECASE | re.MULTILINE)
_BY_NUMBER = {"10": "*", "11": "#", "12": "A", "13": "B", "14": "C", "15": "D"}


def checked(digits: str) -> str:
    """Raises: BadRequest."""
    upper = digits.upper()
    if _DIGITS.fullmatch(upper) is None:
        wrong = f"{len(digits)} digits are too many" if len(digits) > MAX_DIGITS else f"{digits!r} are no digits"
        raise BadRequest(wrong, hint=f"1 to {MAX_DIGITS} of 0-9, A-D, * and #")
    return upper


def is_digit_info(request: Request) -> bool:
    return _content_type(request) in (RELAY, PLAIN)


def digit_of(request: Request) -> str | None:
    """The digit in the body of an INFO; None where there is none."""
    text = request.body.decode("ascii", "replace")
    if _content_type(request) == RELAY:
        match = _SIGNAL.search(text)
        text = "" if match is None else match[1]
    text = text.strip().upper()
    digit = _BY_NUMBER.get(text, text)
    return digit if len(digit) == 1 and _DIGITS.fullmatch(digit) else None


def _content_type(request: Request) -> str:
    return (request.headers.get("Content-Type") or "").partition(";")[0].strip().lower()
