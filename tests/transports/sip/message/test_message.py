"""Requests and responses of a well-behaved peer, and of one with habits."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.message.message import Headers, Request, Response, parse
from tests.transports.sip.message.messages import BODY, message


def request(data: bytes) -> Request:
    parsed = parse(data)
    assert isinstance(parsed, Request)
    return parsed


def test_request_is_taken_apart() -> None:
    invite = request(message("Content-Type: application/sdp", f"Content-Length: {len(BODY)}", body=BODY))
    assert (invite.method, invite.uri) == ("INVITE", "sip:agent@203.0.113.50")
    assert invite.headers.get("call-id") == "3848276298220188511@192.0.2.7"
    assert invite.body == BODY


def test_response_is_taken_apart() -> None:
    response = parse(message(start="SIP/2.0 486 Busy Here"))
    assert isinstance(response, Response)
    assert (response.status, response.reason) == (486, "Busy Here")


@pytest.mark.parametrize("start", ["SIP/2.0 200", "SIP/2.0 200 ", "sip/2.0 200 "])
def test_response_needs_no_reason(start: str) -> None:
    response = parse(message(start=start))
    assert isinstance(response, Response)
    assert (response.status, response.reason) == (200, "")


def test_reason_may_hold_anything_in_utf8() -> None:
    response = parse(message(start="SIP/2.0 200 = 2**3 * 5**2 но сто"))
    assert isinstance(response, Response)
    assert response.reason == "= 2**3 * 5**2 но сто"


def test_content_length_is_set_on_the_way_out() -> None:
    headers = Headers()
    headers.add("Content-Length", "99")
    headers.add("Subject", "x")
    assert Request("INFO", "sip:a@b", headers, b"abc").to_bytes() == (
        b"INFO sip:a@b SIP/2.0\r\nSubject: x\r\nContent-Length: 3\r\n\r\nabc"
    )
    assert Response(200, "OK").to_bytes() == b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"


def test_bytes_behind_the_content_length_are_left_out() -> None:
    assert request(message("Content-Length: 3", body=b"abcdef")).body == b"abc"


def test_datagram_without_content_length_is_body_to_its_end() -> None:
    assert request(message(body=b"\x00\xff\r\n\r\nabc")).body == b"\x00\xff\r\n\r\nabc"


def test_content_length_may_be_there_twice_if_it_is_the_same() -> None:
    assert request(message("Content-Length: 3", "l: 03", body=b"abcdef")).body == b"abc"


def test_empty_lines_before_a_message_are_skipped() -> None:
    assert request(b"\r\n\r\n\r\n" + message()).method == "INVITE"


def test_folded_lines_are_unfolded() -> None:
    headers = request(message("Subject: first", "\tsecond: third", "   fourth")).headers
    assert headers.get("Subject") == "first second: third fourth"
    assert headers.get("second") is None


def test_white_space_around_a_colon_means_nothing() -> None:
    headers = request(message("Expires \t:  60  ")).headers
    assert headers.get("Expires") == "60"


def test_compact_names_are_expanded() -> None:
    data = message("v: SIP/2.0/UDP p1;branch=z9hG4bKdef", "k: timer, 100rel", "x: 90", "o: refer", "r: <tel:+15550100>")
    headers = request(data).headers
    assert len(headers.all("Via")) == 2
    assert headers.all("Supported") == ["timer", "100rel"]
    assert headers.get("x") == headers.get("Session-Expires") == "90"
    assert headers.get("Refer-To") == "<tel:+15550100>"
    assert b"\r\nEvent: refer\r\n" in request(data).to_bytes()


def test_lists_come_apart_whether_in_one_line_or_many() -> None:
    lines = ('Route: <sip:p1,x;lr>, "a,b" <sip:p2;lr>', "Route: <sip:p3;lr>")
    assert request(message(*lines)).headers.all("Route") == ["<sip:p1,x;lr>", '"a,b" <sip:p2;lr>', "<sip:p3;lr>"]


@pytest.mark.parametrize("name", ["Subject", "Date", "Authorization", "WWW-Authenticate", "X-Anything"])
def test_comma_elsewhere_is_part_of_the_value(name: str) -> None:
    assert request(message(f"{name}: a, b")).headers.all(name) == ["a, b"]


def test_empty_header_is_there() -> None:
    headers = request(message("Supported:", "X-Empty: ")).headers
    assert headers.get("Supported") == headers.get("X-Empty") == ""
    assert headers.all("Supported") == []
    assert "supported" in headers and "k" in headers and "X-Other" not in headers


def test_latin_1_is_read_and_leaves_as_utf8() -> None:
    data = message(without="From").replace(
        b"\r\n\r\n", b'\r\nFrom: "Jos\xe9" <sip:j@x>;tag=1\r\nX-Name: \xc3\xbc\r\n\r\n'
    )
    headers = request(data).headers
    assert headers.get("From") == '"José" <sip:j@x>;tag=1'
    assert headers.get("X-Name") == "ü"
    assert '"José" <sip:j@x>'.encode() in request(data).to_bytes()


def test_uri_of_any_scheme_is_kept_as_it_is() -> None:
    for uri in ("urn:service:sos", "tel:+15550100", "sip:a#b@p1", "sip:x;y=z@h?Replaces=a%40b"):
        assert request(message(start=f"INVITE {uri} SIP/2.0")).uri == uri


def test_headers_keep_their_order_and_place() -> None:
    headers = Headers()
    for name, value in (("Via", "1"), ("From", "a"), ("v", "2"), ("To", "b")):
        headers.add(name, value)
    headers.set("VIA", "3", "4")
    assert list(headers.items()) == [("Via", "3"), ("Via", "4"), ("From", "a"), ("To", "b")]
    headers.set("Call-ID", "c")
    headers.remove("from")
    headers.remove("never there")
    assert list(headers.items()) == [("Via", "3"), ("Via", "4"), ("To", "b"), ("Call-ID", "c")]
    headers.set("Via")
    assert headers.get("Via") is None and headers.all("Via") == []


@pytest.mark.parametrize("value", ["a\r\nRoute: <sip:evil>", "a\nb", "a\rb", "a\x00b", "a\x7f"])
def test_nothing_can_be_smuggled_into_a_header(value: str) -> None:
    headers = Headers()
    with pytest.raises(ValueError, match="control character"):
        headers.add("Subject", value)
    with pytest.raises(ValueError, match="control character"):
        headers.set("Subject", value)
    with pytest.raises(ValueError, match="control character"):
        Request("INVITE", value)
    with pytest.raises(ValueError, match="control character"):
        Response(200, value)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\n", "ä"])
def test_name_of_a_header_is_a_token(name: str) -> None:
    with pytest.raises(ValueError, match="no header name"):
        Headers().add(name, "x")
