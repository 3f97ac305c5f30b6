"""Messages that nobody should send: refused so that a request can be answered, and nothing else happens."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.message import message as messages
from rtc_server.transports.sip.message.message import Request, SipParseError, parse
from tests.transports.sip.message.messages import message

BIG = "9" * 30
START = "INVITE sip:agent@203.0.113.50 SIP/2.0"


def refused(data: bytes) -> SipParseError:
    with pytest.raises(SipParseError) as caught:
        parse(data)
    return caught.value


def assert_answerable(error: SipParseError, status: int = 400) -> Request:
    assert error.status == status
    assert error.partial is not None
    for name in ("Via", "From", "To", "Call-ID", "CSeq"):
        assert len(error.partial.headers.all(name)) == 1, name
    return error.partial


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        b"\r\n\r\n",
        b"\x00" * 20,
        b"\x80\x00" + b"\x12" * 170,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"INVITE\r\n\r\n",
        b"INVITE sip:a@b\r\n\r\n",
        b"SIP/2.0 99 Low\r\n\r\n",
        b"SIP/2.0 700 High\r\n\r\n",
        b"SIP/2.0 2000 OK\r\n\r\n",
        b"SIP/3.0 200 OK\r\n\r\n",
        b"SIP/2.0\r\n\r\n",
        b"INVITE sip:a\x00@b SIP/2.0\r\n\r\n",
        b"INVITE sip:a@b\nVia: x SIP/2.0\r\n\r\n",
        b" INVITE sip:a@b SIP/2.0\r\n\r\n",
        b"INVITE sip:a@b SIP/2.0\nVia: SIP/2.0/UDP h\n\n",
    ],
)
def test_what_is_no_message_cannot_be_answered(data: bytes) -> None:
    assert refused(data).partial is None


def test_malformed_response_cannot_be_answered() -> None:
    assert refused(message("no colon", start="SIP/2.0 200 OK")).partial is None
    assert refused(message("Content-Length: 5", start="SIP/2.0 200 OK")).partial is None


@pytest.mark.parametrize(
    "start",
    [
        "INVITE  sip:agent@203.0.113.50 SIP/2.0",
        "INVITE sip:agent@203.0.113.50  SIP/2.0",
        "INVITE sip:agent@203.0.113.50 SIP/2.0 ",
        "INVITE sip:agent@203.0.113.50; lr SIP/2.0",
        "INVITE <sip:agent@203.0.113.50> SIP/2.0",
        "INVITE agent SIP/2.0",
        "INVITE sip: SIP/2.0",
        'INVITE sip:"a"@b SIP/2.0',
        "INV(ITE sip:a@b SIP/2.0",
        "ИНВАЙТ sip:a@b SIP/2.0",
        "M" * 65 + " sip:a@b SIP/2.0",
    ],
)
def test_malformed_request_line_is_answered(start: str) -> None:
    assert_answerable(refused(message(start=start)))


@pytest.mark.parametrize("version", ["7.0", "2.1", "1.0", "2.00"])
def test_other_version_is_told_so(version: str) -> None:
    assert_answerable(refused(message(start=f"INVITE sip:a@b SIP/{version}")), 505)


@pytest.mark.parametrize(
    "line",
    [
        "no colon at all",
        ": no name",
        "Bad Name: x",
        "Bad(Name): x",
        "Ñame: x",
        "X-Null: a\x00b",
        "X-Bell: a\x07b",
        "X-Return: a\rb",
        "X-Feed: a\nVia: SIP/2.0/UDP evil",
        'From: "second" <sip:b@x>;tag=2',
        "f: <sip:b@x>;tag=2",
        "To: <sip:b@x>",
        "i: another@call",
        "CSeq: 3 INVITE",
        "Max-Forwards: 3",
    ],
)
def test_bad_header_line_is_left_out_and_the_rest_answered(line: str) -> None:
    partial = assert_answerable(refused(message(line)))
    assert (partial.headers.get("From") or "").endswith("tag=9fxced76sl")
    assert partial.headers.get("CSeq") == "2 INVITE"


@pytest.mark.parametrize("length", ["-1", "x", "", "1.0", "0x10", "3, 3", BIG, "٣", "+3"])
def test_content_length_that_is_no_length_is_answered(length: str) -> None:
    assert_answerable(refused(message(f"Content-Length: {length}", body=b"abc")))


def test_two_content_lengths_are_answered() -> None:
    assert_answerable(refused(message("Content-Length: 3", "l: 2", body=b"abc")))


def test_content_length_beyond_the_datagram_is_answered() -> None:
    assert_answerable(refused(message("Content-Length: 4", body=b"abc")))


def test_message_without_an_end_of_its_headers_is_answered() -> None:
    assert_answerable(refused(message().removesuffix(b"\r\n\r\n")))


def test_bounds_hold() -> None:
    limit = messages.MAX_LINE_CHARS
    parse(message(*["X: y"] * (messages.MAX_HEADERS - 7)))
    assert_answerable(refused(message(*["X: y"] * (messages.MAX_HEADERS - 6))))
    parse(message("X:" + "y" * (limit - 2)))
    partial = assert_answerable(refused(message("X:" + "y" * (limit - 1))))
    assert partial.headers.get("X") is None
    assert_answerable(refused(message("X: y", *[" z"] * limit)))
    assert_answerable(refused(message(start=f"INVITE sip:{'a' * limit} SIP/2.0")), 414)
    assert_answerable(refused(message(body=b"x" * messages.MAX_MESSAGE_BYTES)), 513)


def test_empty_header_names_do_not_hide_what_is_needed() -> None:
    error = refused(message("no colon", without="Via"))
    assert error.partial is not None
    assert error.partial.headers.all("Via") == []
