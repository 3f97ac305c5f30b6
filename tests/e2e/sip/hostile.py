"""What nobody should send to a SIP port, and some do: datagrams that were good messages once, and worse."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from tests.transports.sip.call.phone import Phone, sdp

Twist = Callable[[bytes, random.Random], bytes]

_METHODS = (
    "INVITE",
    "OPTIONS",
    "ACK",
    "BYE",
    "CANCEL",
    "UPDATE",
    "INFO",
    "REFER",
    "NOTIFY",
    "PRACK",
    "REGISTER",
    "SING",
)
_MOST_BYTES = 60_000
_SPECIAL = b'\0"\\<>(){}[]@:;,=?%\r\n\t \xff\x80'
_ABSURD = (
    "Content-Length: 99999999999999999999",
    "Content-Length: -1",
    "Content-Length: 0x10",
    "Content-Length: 3, 4",
    "Content-Length: 60000",
    "CSeq: 18446744073709551616 INVITE",
    "CSeq: INVITE 1",
    "CSeq: 1 BYE",
    "Max-Forwards: 99999999999",
    "Via: SIP/2.0/UDP 127.0.0.1:99999;branch=z9hG4bKabsurd",
    "Via: SIP/2.0/UDP [::1;branch=z9hG4bKabsurd",
    "Via: SIP/2.0/UDP 127.0.0.1:9;maddr=224.0.0.1;ttl=255;branch=z9hG4bKabsurd",
    "Via: SIP/2.0/TLS host.invalid;branch=;rport=abc;received=nowhere",
    "Contact: <sip:127.0.0.1:0>",
    "Contact: *",
    "Route: <sip:127.0.0.1;lr>, <sip:127.0.0.1;lr>",
    "Record-Route: <<<sip:127.0.0.1;lr>>>",
    "Session-Expires: 1;refresher=nobody",
    "Session-Expires: 99999999999",
    "Require: 100rel, timer, " + "x" * 500,
    'Content-Type: multipart/mixed;boundary=""',
    "Content-Encoding: gzip",
    'Authorization: Digest username="a", nonce="", response=""',
    "Replaces: nobody;to-tag=1;from-tag=2",
    "From: <sip:nobody@127.0.0.1>;tag=",
    "To: sip:%00%00@127.0.0.1;tag=a;tag=b",
    "Call-ID: ",
)
_MORE_SDP = (
    "m=audio 0 RTP/AVP 0",
    "m=audio 99999 RTP/AVP 0",
    "m=audio 9 RTP/SAVP 0",
    "a=rtpmap:0 " + "X" * 2000,
    "a=rtpmap:999999999999 PCMU/0",
    "a=ptime:0",
    "a=ptime:99999999999",
    "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:AAAA",
    "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:" + "A" * 5000,
    "a=fmtp:101 0-99999999999",
    "c=IN IP6 127.0.0.1",
    "c=IN IP4 224.0.0.1/127",
    "c=IN IP4 0.0.0.0",
    "o=- \xff \xff IN IP4",
    "v=1",
    "a=rtcp:99999 IN IP4 host.invalid",
    "=",
)


def hostile_datagrams(count: int, source: random.Random, number: str) -> Iterator[bytes]:
    """So many, from good messages to `number` and others."""
    good = [_good(method, target, source) for method in _METHODS for target in (number, "999")]
    for index in range(count):
        twist = TWISTS[index % len(TWISTS)]
        yield twist(source.choice(good), source)[:_MOST_BYTES]


def good_invite(number: str, source: random.Random, body: str = "") -> bytes:
    return _good("INVITE", number, source, body)


def _good(method: str, number: str, source: random.Random, body: str = "") -> bytes:
    sent: list[bytes] = []
    phone = Phone(lambda data, flow: sent.append(data))
    phone.target = f"sip:{number}@127.0.0.1"
    phone.call_id = phone.tag = f"{source.getrandbits(64):x}"
    if method in ("BYE", "UPDATE", "INFO", "REFER", "NOTIFY", "PRACK", "ACK"):
        phone.our_tag = f"{source.getrandbits(64):x}"
    phone.send(method, (body or sdp()) if method in ("INVITE", "UPDATE") else "")
    return sent[0]


def _flipped(message: bytes, source: random.Random) -> bytes:
    data = bytearray(message)
    for _ in range(source.randint(1, 12)):
        data[source.randrange(len(data))] = source.randrange(256)
    return bytes(data)


def _special(message: bytes, source: random.Random) -> bytes:
    """Bytes that mean something to a parser, where they do not belong."""
    data = bytearray(message)
    for _ in range(source.randint(1, 8)):
        at = source.randrange(len(data))
        data[at : at + source.randint(0, 2)] = source.choices(_SPECIAL, k=source.randint(1, 4))
    return bytes(data)


def _truncated(message: bytes, source: random.Random) -> bytes:
    return message[: source.randrange(1, len(message))]


def _noise(message: bytes, source: random.Random) -> bytes:
    return source.randbytes(source.randint(1, 1400))


def _spliced(message: bytes, source: random.Random) -> bytes:
    """Its own lines, some twice, some not, in another order."""
    lines = message.split(b"\r\n")
    return b"\r\n".join(source.choices(lines, k=len(lines)))


def _huge(message: bytes, source: random.Random) -> bytes:
    filler = source.choice((b"a", b'"', b"\\", b"(", b"<", b",", b";", b"=", b"%", b" ", b"\r\n ", b"SIP/2.0/UDP a,"))
    name = source.choice((b"From", b"Via", b"Contact", b"Subject", b"Call-ID", b"X-More", b"Require", b"Route"))
    value = filler * (source.choice((2_000, 10_000, 50_000)) // len(filler))
    return _with_line(message, name + b": " + value)


def _many(message: bytes, source: random.Random) -> bytes:
    line = source.choice((b"X-A: b", b"Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKx", b"a:", b"Route: <sip:a>", b"l: 0"))
    return message.replace(b"\r\n", b"\r\n" + b"\r\n".join([line] * source.choice((50, 500, 3000))) + b"\r\n", 1)


def _nested(message: bytes, source: random.Random) -> bytes:
    """Quotes within quotes, comments within comments."""
    depth = source.choice((5, 100, 2000))
    value = source.choice(
        (
            b'"' + b'\\"' * depth + b'" <sip:a@b>',
            b'"' * depth + b"<sip:a@b>",
            b"(" * depth + b")" * (depth - 1),
            b"<" * depth + b"sip:a@b" + b">" * depth,
            b'"a" <sip:a@b?' + b"x=%22&" * depth + b">",
            b"<sip:a@b>;" + b'x="\\\\";' * depth,
        )
    )
    return _replaced(message, source.choice((b"From", b"To", b"Contact")), value)


def _absurd(message: bytes, source: random.Random) -> bytes:
    name, _, value = source.choice(_ABSURD).partition(":")
    return _replaced(message, name.encode(), value.strip().encode())


def _missing(message: bytes, source: random.Random) -> bytes:
    lines = message.split(b"\r\n")
    del lines[source.randrange(len(lines) - 1)]
    return b"\r\n".join(lines)


def _bad_offer(message: bytes, source: random.Random) -> bytes:
    lines = sdp().splitlines()
    for _ in range(source.randint(1, 6)):
        lines.insert(source.randrange(len(lines) + 1), source.choice(_MORE_SDP))
    lines *= source.choice((1, 1, 1, 40))
    return good_invite(source.choice(("5550100", "999")), source, "\r\n".join([*lines, ""]))


def _response(message: bytes, source: random.Random) -> bytes:
    """To nothing that was ever asked."""
    status = source.choice((100, 180, 200, 302, 401, 407, 487, 503, 699, 7, 1000))
    return _flipped(message.replace(message.partition(b"\r\n")[0], b"SIP/2.0 %d \xff" % status, 1), source)


def _with_line(message: bytes, line: bytes) -> bytes:
    return message.replace(b"\r\n", b"\r\n" + line + b"\r\n", 1)


def _replaced(message: bytes, name: bytes, value: bytes) -> bytes:
    found = re.search(rb"\r\n" + name + rb":[^\r]*", message, re.IGNORECASE)
    if found is None:
        return _with_line(message, name + b": " + value)
    return message[: found.start()] + b"\r\n" + name + b": " + value + message[found.end() :]


TWISTS: tuple[Twist, ...] = (
    _flipped,
    _special,
    _truncated,
    _noise,
    _spliced,
    _huge,
    _many,
    _nested,
    _absurd,
    _missing,
    _bad_offer,
    _response,
)
