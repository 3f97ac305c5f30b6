"""Messages to take apart, and to make worse."""

from __future__ import annotations

BODY = b"v=0\r\no=- 1 1 IN IP4 192.0.2.7\r\ns=-\r\nc=IN IP4 192.0.2.7\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"
HEADERS = (
    "Via: SIP/2.0/UDP 192.0.2.7:5060;rport;branch=z9hG4bKabc",
    "Max-Forwards: 70",
    'From: "Ann O\'Nym" <sip:ann@192.0.2.7>;tag=9fxced76sl',
    "To: <sip:agent@203.0.113.50>",
    "Call-ID: 3848276298220188511@192.0.2.7",
    "CSeq: 2 INVITE",
    "Contact: <sip:ann@192.0.2.7:5060>",
)


def message(
    *more: str, start: str = "INVITE sip:agent@203.0.113.50 SIP/2.0", body: bytes = b"", without: str = ""
) -> bytes:
    """An INVITE with header lines more, or with some of its own left out."""
    kept = [line for line in HEADERS if not without or not line.startswith(without)]
    return "\r\n".join([start, *kept, *more, "", ""]).encode() + body
